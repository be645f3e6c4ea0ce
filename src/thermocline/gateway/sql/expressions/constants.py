"""Constants of a statement as terms: parsed from Postgres' output forms, and passed to both engines as typed values."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal

from psycopg import sql

from thermocline.core.types import MAX_DECIMAL_PRECISION, column_types, render_duckdb_value
from thermocline.gateway.sql.expressions.sql_types import INT4, INT8, SqlType, numeric, sql_type_of_oid
from thermocline.gateway.sql.expressions.terms import Term
from thermocline.gateway.sql.fragments import Fragment, Parameter
from thermocline.gateway.sql.values import Constant, Infinity, NotProvable, Value, parse_int, parse_value

_NO_SECONDS = re.compile(r"(\d{4,}-\d\d-\d\d[ T]\d\d:\d\d)(Z|[+-]\d\d(?::?\d\d)?)?")
_OUTERMOST_MICROS = 9_000_000_000_000_000_000
_OUTERMOST_DAYS = 100_000_000
MAX_DIGITS = 45


@dataclass(frozen=True, slots=True)
class UntypedLiteral:
    """A literal whose type Postgres takes from the other operand; `None` is NULL."""

    text: str | None


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A value with a type from Postgres: a parameter, or a constant expression that Postgres computed."""

    text: str | None
    oid: int


def null_constant(sql_type: SqlType) -> Term:
    return Term(sql_type=sql_type, duckdb=Fragment(f"CAST(NULL AS {sql_type.duckdb_type})"), heap=_cast(None, sql_type))


def literal_constant(sql_type: SqlType, text: str, *, utc: bool) -> Term:
    """The literal as a value of the type. Text whose meaning depends on session settings is not provable."""
    if sql_type.family == "numeric":
        return number(text)
    if sql_type.family == "timestamptz" and not utc and not _has_zone(text):
        raise NotProvable("a timestamp without a zone, in a session that is not in UTC")
    value = _parsed(sql_type, text)
    if sql_type.is_integer:
        _check_bits(value, sql_type.declared.value_bits)
        return Term(
            sql_type=sql_type,
            duckdb=Fragment(f"CAST(? AS {sql_type.duckdb_type})", (_parameter(value),)),
            heap=_cast(text, sql_type),
        )
    if isinstance(value, Infinity) or (isinstance(value, int) and abs(value) > _outermost(sql_type)):
        raise NotProvable("a moment without an end")
    return Term(
        sql_type=sql_type,
        duckdb=Fragment(render_duckdb_value(sql_type.declared.lake), (_parameter(value),)),
        heap=_cast(text, sql_type),
    )


def parse_literal(sql_type: SqlType, text: str, *, utc: bool) -> Value:
    """The literal as a Python value, for file bounds."""
    if sql_type.family == "timestamptz" and not utc and not _has_zone(text):
        raise NotProvable("a timestamp without a zone, in a session that is not in UTC")
    return _parsed(sql_type, text)


def _parsed(sql_type: SqlType, text: str) -> Value:
    if sql_type.is_datetime and (found := _NO_SECONDS.fullmatch(text)):
        text = f"{found[1]}:00{found[2] or ''}"
    return parse_value(sql_type.declared.lake.name, Constant(text, "unknown"))


def number(text: str) -> Term:
    """A number as Postgres types it: integer where it fits, else bigint, else numeric with the digits written."""
    if len(text) <= MAX_DIGITS and (text.isascii() and text.lstrip("-").isdigit()):
        value = int(text)
        for sql_type in (INT4, INT8):
            bits = sql_type.declared.value_bits
            if -(2**bits) <= value < 2**bits:
                return Term(
                    sql_type=sql_type,
                    duckdb=Fragment(f"CAST(? AS {sql_type.duckdb_type})", (value,)),
                    heap=_cast(text, sql_type),
                )
    return decimal(text)


def decimal(text: str) -> Term:
    """A numeric constant with the digits it is written with."""
    if "e" in text.lower() or len(text) > MAX_DIGITS:
        raise NotProvable("a number with an exponent or many digits")
    value = parse_value("decimal", Constant(text, "number"))
    if not isinstance(value, Decimal):
        raise NotProvable("no number")
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    if max(len(digits), scale) > MAX_DECIMAL_PRECISION:
        raise NotProvable("a number with many digits")
    sql_type = numeric(max(len(digits), scale), scale)
    return Term(
        sql_type=sql_type,
        duckdb=Fragment(f"CAST(? AS {sql_type.duckdb_type})", (format(value, "f"),)),
        heap=_cast(text, sql_type),
    )


def typed_constant(value: TypedValue, *, utc: bool, text_is_c: bool) -> Term:
    """The term of a typed value."""
    sql_type = numeric(1, 0) if value.oid == column_types.NUMERIC.oid else sql_type_of_oid(value.oid)
    if sql_type is None:
        raise NotProvable(f"a value of type {value.oid}")
    sql_type = replace(sql_type, is_c=text_is_c) if sql_type.family == "text" else sql_type
    if value.text is None:
        if sql_type.family == "numeric":
            raise NotProvable("a numeric NULL")
        return null_constant(sql_type)
    return decimal(value.text) if sql_type.family == "numeric" else literal_constant(sql_type, value.text, utc=utc)


def _cast(text: str | None, sql_type: SqlType) -> sql.Composable:
    return sql.SQL("CAST({} AS {})").format(sql.Literal(text), sql.SQL(sql_type.postgres_type))  # our own word


def _parameter(value: Value) -> Parameter:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, Decimal | Infinity):
        raise NotProvable("no such constant")
    return value


def _check_bits(value: Value, bits: int) -> None:
    if not isinstance(value, int) or not -(2**bits) <= value < 2**bits:
        raise NotProvable("an integer out of range")


def _outermost(sql_type: SqlType) -> int:
    return _OUTERMOST_DAYS if sql_type.family == "date" else _OUTERMOST_MICROS if sql_type.is_datetime else 2**63


def _has_zone(text: str) -> bool:
    return text.endswith("Z") or any(sign in text[10:] for sign in "+-")


def parse_limit(text: str) -> int:
    """A LIMIT or OFFSET."""
    value = parse_int(text)
    if value < 0:
        raise NotProvable("a negative limit")
    return value
