"""Constants of a statement as terms: read by us in Postgres' plain forms, given to both engines as typed values."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal

from psycopg import sql

from thermocline.gateway.sql.fragments import Fragment, Parameter
from thermocline.gateway.sql.query.sql_types import INT4, INT8, LAKE_KINDS, Kind, numeric, plain_kind
from thermocline.gateway.sql.query.terms import Term
from thermocline.gateway.sql.values import Constant, Infinity, NotProvable, Value, parse_int, parse_value

_INT_BITS = {"int2": 15, "int4": 31, "int8": 63}
_MAKERS = {
    "bool": "CAST(? AS BOOLEAN)",
    "float4": "CAST(? AS FLOAT)",
    "float8": "CAST(? AS DOUBLE)",
    "text": "CAST(? AS VARCHAR)",
    "uuid": "CAST(? AS UUID)",
    "bytea": "CAST(? AS BLOB)",
    "date": "(DATE '1970-01-01' + CAST(? AS INTEGER))",
    "time": "(TIME '00:00:00' + to_microseconds(CAST(? AS BIGINT)))",
    "timestamp": "make_timestamp(CAST(? AS BIGINT))",
    "timestamptz": "make_timestamptz(CAST(? AS BIGINT))",
}
_NO_SECONDS = re.compile(r"(\d{4,}-\d\d-\d\d[ T]\d\d:\d\d)(Z|[+-]\d\d(?::?\d\d)?)?")
_OUTERMOST_MICROS = 9_000_000_000_000_000_000
_OUTERMOST_DAYS = 100_000_000
MAX_DIGITS = 45


@dataclass(frozen=True, slots=True)
class Untyped:
    """A literal whose type Postgres takes from what stands beside it; `None` is NULL."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Given:
    """A value that Postgres typed: a parameter, or a constant expression it computed for us."""

    text: str | None
    oid: int


def null_of(kind: Kind) -> Term:
    return Term(kind=kind, duck=Fragment(f"CAST(NULL AS {kind.duckdb})"), heap=_cast(None, kind))


def constant_of(kind: Kind, text: str, *, utc: bool) -> Term:
    """The literal as a value of the kind; text that Postgres would read otherwise in another session is not
    followed."""
    if kind.family == "numeric":
        return number(text)
    if kind.family == "timestamptz" and not utc and not _has_zone(text):
        raise NotProvable("a timestamp without a zone, in a session that is not in UTC")
    value = _parsed(kind, text)
    if kind.is_integer:
        _check_bits(value, _INT_BITS[kind.family])
        return Term(kind=kind, duck=Fragment(f"CAST(? AS {kind.duckdb})", (_parameter(value),)), heap=_cast(text, kind))
    if isinstance(value, Infinity) or (isinstance(value, int) and abs(value) > _outermost(kind)):
        raise NotProvable("a moment without an end")
    return Term(kind=kind, duck=Fragment(_MAKERS[kind.family], (_parameter(value),)), heap=_cast(text, kind))


def value_of(kind: Kind, text: str, *, utc: bool) -> Value:
    """The literal as Python has it, for file bounds."""
    if kind.family == "timestamptz" and not utc and not _has_zone(text):
        raise NotProvable("a timestamp without a zone, in a session that is not in UTC")
    return _parsed(kind, text)


def _parsed(kind: Kind, text: str) -> Value:
    if kind.is_moment and (found := _NO_SECONDS.fullmatch(text)):
        text = f"{found[1]}:00{found[2] or ''}"
    return parse_value(LAKE_KINDS[kind.family], Constant(text, "unknown"))


def number(text: str) -> Term:
    """A number as Postgres types it: integer where it fits, bigint where that fits, else numeric with the digits
    written."""
    if len(text) <= MAX_DIGITS and (text.isascii() and text.lstrip("-").isdigit()):
        value = int(text)
        for kind, bits in ((INT4, 31), (INT8, 63)):
            if -(2**bits) <= value < 2**bits:
                return Term(kind=kind, duck=Fragment(f"CAST(? AS {kind.duckdb})", (value,)), heap=_cast(text, kind))
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
    if len(digits) > 38 or scale > 38:
        raise NotProvable("a number with many digits")
    kind = numeric(max(len(digits), scale), scale)
    return Term(kind=kind, duck=Fragment(f"CAST(? AS {kind.duckdb})", (format(value, "f"),)), heap=_cast(text, kind))


def given(value: Given, *, utc: bool, text_is_c: bool) -> Term:
    """A value with a type of Postgres'."""
    kind = numeric(1, 0) if value.oid == 1700 else plain_kind(value.oid)
    if kind is None:
        raise NotProvable(f"a value of type {value.oid}")
    kind = replace(kind, is_c=text_is_c) if kind.family == "text" else kind
    if value.text is None:
        if kind.family == "numeric":
            raise NotProvable("a numeric NULL")
        return null_of(kind)
    return decimal(value.text) if kind.family == "numeric" else constant_of(kind, value.text, utc=utc)


def _cast(text: str | None, kind: Kind) -> sql.Composable:
    return sql.SQL("CAST({} AS {})").format(sql.Literal(text), sql.SQL(kind.postgres))  # our own word


def _parameter(value: Value) -> Parameter:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, Decimal | Infinity):
        raise NotProvable("no such constant")
    return value


def _check_bits(value: Value, bits: int) -> None:
    if not isinstance(value, int) or not -(2**bits) <= value < 2**bits:
        raise NotProvable("an integer out of range")


def _outermost(kind: Kind) -> int:
    return _OUTERMOST_DAYS if kind.family == "date" else _OUTERMOST_MICROS if kind.is_moment else 2**63


def _has_zone(text: str) -> bool:
    return text.endswith("Z") or any(sign in text[10:] for sign in "+-")


def limit_of(text: str) -> int:
    """A LIMIT or OFFSET."""
    value = parse_int(text)
    if value < 0:
        raise NotProvable("a negative limit")
    return value
