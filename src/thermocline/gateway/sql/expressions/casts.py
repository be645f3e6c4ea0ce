"""Casts between types that both engines compute alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from thermocline.core.types import column_types
from thermocline.gateway.sql.expressions.sql_types import FLOAT8, SqlType, numeric, sql_type_of_oid
from thermocline.gateway.sql.expressions.terms import Term, compose_term
from thermocline.gateway.sql.fragments import Fragment, fill_template

_NUMERIC = numeric(1, 0)
_CANONICAL_OIDS: Mapping[exp.DType, int] = {
    exp.DType.BOOLEAN: column_types.BOOL.oid,
    exp.DType.SMALLINT: column_types.INT2.oid,
    exp.DType.INT: column_types.INT4.oid,
    exp.DType.BIGINT: column_types.INT8.oid,
    exp.DType.DOUBLE: column_types.FLOAT8.oid,
    exp.DType.TEXT: column_types.TEXT.oid,
    exp.DType.VARCHAR: column_types.VARCHAR.oid,
    exp.DType.DATE: column_types.DATE.oid,
    exp.DType.TIME: column_types.TIME.oid,
    exp.DType.TIMESTAMP: column_types.TIMESTAMP.oid,
    exp.DType.TIMESTAMPTZ: column_types.TIMESTAMPTZ.oid,
    exp.DType.UUID: column_types.UUID.oid,
    exp.DType.VARBINARY: column_types.BYTEA.oid,
}
"""Types as Postgres prints them, without a modifier."""


def canonical_type(target: exp.DataType) -> SqlType | None:
    """The type that a cast names; a numeric has the digits of what is cast. `None` where it is left to Postgres."""
    if target.expressions or not isinstance(target.this, exp.DType):
        return None
    if target.this is exp.DType.DECIMAL:
        return _NUMERIC
    oid = _CANONICAL_OIDS.get(target.this)
    return sql_type_of_oid(oid) if oid is not None else None


def cast_double(term: Term) -> Term:
    return (
        term
        if term.sql_type.family == "float8"
        else compose_term(FLOAT8, "CAST({} AS DOUBLE)", term, heap="CAST({} AS double precision)")
    )


def cast_datetime(term: Term, sql_type: SqlType) -> Term:
    """Cast a date or timestamp to another such type, in UTC."""
    if term.sql_type.family == sql_type.family:
        return term
    if sql_type.family == "timestamptz":
        return compose_term(sql_type, "make_timestamptz(epoch_us({}))", term, heap="CAST({} AS timestamptz)")
    return replace(compose_term(sql_type, "{}", term, heap="CAST({} AS timestamp)"), duckdb=cast_timestamp(term))


def cast_timestamp(term: Term) -> Fragment:
    """Cast to DuckDB's timestamp in UTC. DuckDB's own cast uses a calendar library and takes ten times as long."""
    if term.sql_type.family == "timestamptz":
        return fill_template("make_timestamp(epoch_us({}))", [term.duckdb])
    return fill_template("CAST({} AS TIMESTAMP)", [term.duckdb]) if term.sql_type.family == "date" else term.duckdb
