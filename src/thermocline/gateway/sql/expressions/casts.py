"""Casts between types that both engines compute alike."""

from __future__ import annotations

from dataclasses import replace

from thermocline.gateway.sql.expressions.sql_types import FLOAT8, SqlType
from thermocline.gateway.sql.expressions.terms import Term, compose_term
from thermocline.gateway.sql.fragments import Fragment, fill_template


def cast_double(term: Term) -> Term:
    return (
        term
        if term.sql_type.family == "float8"
        else compose_term(FLOAT8, "CAST({} AS DOUBLE)", term, heap="CAST({} AS double precision)")
    )


def cast_datetime(term: Term, sql_type: SqlType) -> Term:
    """A date or timestamp as another kind of moment, in UTC."""
    if term.sql_type.family == sql_type.family:
        return term
    if sql_type.family == "timestamptz":
        return compose_term(sql_type, "make_timestamptz(epoch_us({}))", term, heap="CAST({} AS timestamptz)")
    return replace(compose_term(sql_type, "{}", term, heap="CAST({} AS timestamp)"), duckdb=cast_timestamp(term))


def cast_timestamp(term: Term) -> Fragment:
    """A moment as DuckDB's timestamp in UTC; its own cast goes through a calendar and takes ten times as long."""
    if term.sql_type.family == "timestamptz":
        return fill_template("make_timestamp(epoch_us({}))", [term.duckdb])
    return fill_template("CAST({} AS TIMESTAMP)", [term.duckdb]) if term.sql_type.family == "date" else term.duckdb
