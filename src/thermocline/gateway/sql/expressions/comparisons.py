"""Check that values compare alike in both engines, and compile comparisons with floats."""

from __future__ import annotations

import math
from dataclasses import replace

from thermocline.gateway.sql.expressions.sql_types import BOOL, SqlType
from thermocline.gateway.sql.expressions.terms import Term, compose_term
from thermocline.gateway.sql.fragments import fill_template
from thermocline.gateway.sql.values import NotProvable

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compare_floats(one: Term, op: str, two: Term) -> Term:
    """Compare a column with a float constant. NaN, which sorts last, is tested explicitly, because statistics leave it
    out."""
    if one.column is None:
        one, two, op = two, one, MIRRORED[op]
    if one.column is None or two.relation_numbers or not _is_finite(two):
        raise NotProvable("floats are compared with finite constants only")
    column = f"CAST({{}} AS DOUBLE) {op} CAST({{}} AS DOUBLE)"
    odd = "isnan(CAST({} AS DOUBLE))"
    duckdb = f"({odd} OR {column})" if op in ("<>", ">", ">=") else f"(NOT {odd} AND {column})"
    heap = f"(CAST({{}} AS double precision) {op} CAST({{}} AS double precision))"
    both = compose_term(BOOL, f"({{}} {op} {{}})", one, two, heap=heap)
    return replace(both, duckdb=fill_template(duckdb, [one.duckdb, one.duckdb, two.duckdb]))


def _is_finite(constant: Term) -> bool:
    return all(isinstance(value, float) and math.isfinite(value) for value in constant.duckdb.parameters)


def check_comparable(sql_type: SqlType, op: str) -> None:
    if not (sql_type.has_equality if op in ("=", "<>") else sql_type.has_order):
        raise NotProvable(f"comparison of {sql_type.family} depends on its collation or has other rules in Postgres")
