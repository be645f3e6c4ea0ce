"""Types as both engines have them: what a value is in Postgres, and how DuckDB holds it without losing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from thermocline.gateway.sql.values import NotProvable

Family = Literal[
    "bool",
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "text",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "bytea",
]

MAX_PRECISION = 38
DEFAULT_COLLATION = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlType:
    """A type. All values of a numeric kind show the same number of digits after the point, as Postgres prints them.

    `is_c`: text is ordered by its bytes. `collation`: its oid in Postgres; constants have the database's own.
    """

    family: Family
    oid: int
    precision: int = 0
    scale: int = 0
    is_c: bool = False
    collation: int = DEFAULT_COLLATION

    @property
    def is_default(self) -> bool:
        """Whether text has the database's own collation."""
        return self.collation == DEFAULT_COLLATION

    @property
    def duckdb_type(self) -> str:
        if self.family == "numeric":
            return f"DECIMAL({self.precision}, {self.scale})"
        return _DUCKDB[self.family]

    @property
    def postgres_type(self) -> str:
        return _POSTGRES[self.family]

    @property
    def arrow_type(self) -> pa.DataType:
        if self.family == "numeric":
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.family]

    @property
    def is_integer(self) -> bool:
        return self.family in ("int2", "int4", "int8")

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.family == "numeric"

    @property
    def is_float(self) -> bool:
        return self.family in ("float4", "float8")

    @property
    def is_datetime(self) -> bool:
        return self.family in ("date", "timestamp", "timestamptz")

    @property
    def has_equality(self) -> bool:
        """Whether equal in DuckDB is equal in Postgres; zero has two signs in floats, and NaN hides from statistics."""
        return not self.is_float

    @property
    def has_order(self) -> bool:
        return self.has_equality and (self.family != "text" or self.is_c)


_DUCKDB: Mapping[Family, str] = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "VARCHAR",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "uuid": "UUID",
    "bytea": "BLOB",
}
_POSTGRES: Mapping[Family, str] = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "numeric": "numeric",
    "float4": "real",
    "float8": "double precision",
    "text": "text",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "uuid": "uuid",
    "bytea": "bytea",
}
_ARROW: Mapping[Family, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "uuid": pa.string(),
    "bytea": pa.binary(),
}

BOOL = SqlType(family="bool", oid=16)
INT2 = SqlType(family="int2", oid=21)
INT4 = SqlType(family="int4", oid=23)
INT8 = SqlType(family="int8", oid=20)
FLOAT8 = SqlType(family="float8", oid=701)
TEXT = SqlType(family="text", oid=25)
DATE = SqlType(family="date", oid=1082)
TIMESTAMP = SqlType(family="timestamp", oid=1114)
TIMESTAMPTZ = SqlType(family="timestamptz", oid=1184)

_PLAIN: Mapping[int, SqlType] = {
    sql_type.oid: sql_type
    for sql_type in (
        BOOL,
        INT2,
        INT4,
        INT8,
        FLOAT8,
        TEXT,
        DATE,
        TIMESTAMP,
        TIMESTAMPTZ,
        SqlType(family="float4", oid=700),
        SqlType(family="text", oid=1043),
        SqlType(family="time", oid=1083),
        SqlType(family="uuid", oid=2950),
        SqlType(family="bytea", oid=17),
    )
}

LAKE_TYPES: Mapping[Family, str] = {
    "bool": "boolean",
    "int2": "int",
    "int4": "int",
    "int8": "long",
    "numeric": "decimal",
    "float4": "float",
    "float8": "double",
    "text": "string",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "uuid": "uuid",
    "bytea": "binary",
}
"""The lake's word for each family."""


def numeric(precision: int, scale: int) -> SqlType:
    return SqlType(family="numeric", oid=1700, precision=min(MAX_PRECISION, max(precision, scale, 1)), scale=scale)


def column_sql_type(oid: int, modifier: int, *, is_c: bool, is_deterministic: bool, collation: int) -> SqlType | None:
    """The kind of a column as Postgres declares it, or `None` when DuckDB cannot hold it exactly."""
    if oid == 1700:
        precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
        return (
            numeric(precision, scale) if modifier >= 4 and precision <= MAX_PRECISION and scale <= precision else None
        )
    sql_type = _PLAIN.get(oid)
    if sql_type is None or sql_type.family != "text":
        return sql_type
    return replace(sql_type, is_c=is_c, collation=collation) if is_deterministic else None


def sql_type_of_oid(oid: int) -> SqlType | None:
    """The kind of a value of this type without a modifier."""
    return _PLAIN.get(oid)


def integer_to_numeric(sql_type: SqlType) -> SqlType:
    """An integer's kind as a numeric one."""
    return (
        sql_type if sql_type.family == "numeric" else numeric({"int2": 5, "int4": 10, "int8": 19}[sql_type.family], 0)
    )


def check_common_decimal(one: SqlType, two: SqlType) -> None:
    """DuckDB compares two exact numbers in a decimal that holds both; where there is none it would take floats."""
    first, second = integer_to_numeric(one), integer_to_numeric(two)
    scale = max(first.scale, second.scale)
    if max(first.precision - first.scale, second.precision - second.scale) + scale > MAX_PRECISION:
        raise NotProvable("numbers that no decimal holds together are left to Postgres")


def resolve_collation(one: SqlType, two: SqlType) -> SqlType:
    """The first kind with the collation both have together: any other wins over the database's own, two others have
    none for certain."""
    if one.collation == two.collation or two.is_default:
        return one
    if not one.is_default:
        raise NotProvable("text of different collations is left to Postgres")
    return replace(one, collation=two.collation, is_c=two.is_c)
