"""SQL types in both engines: a type in Postgres, and the DuckDB type that holds its values exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from thermocline.core.types import (
    COLUMN_TYPES,
    MAX_DECIMAL_PRECISION,
    ColumnType,
    PrimitiveType,
    column_types,
    render_duckdb,
)
from thermocline.gateway.sql.values import NotProvable
from thermocline.parquet.values.arrow_types import build_arrow

MAX_PRECISION = MAX_DECIMAL_PRECISION
DEFAULT_COLLATION = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlType:
    """A type. All values of a numeric type have the same scale when Postgres prints them.

    `family` is the typname of the declared type, and `text` for varchar too. `is_c`: text is ordered by its bytes.
    `collation`: its OID in Postgres; constants have the database's own.
    """

    family: str
    oid: int
    precision: int = 0
    scale: int = 0
    is_c: bool = False
    collation: int = DEFAULT_COLLATION

    @property
    def declared(self) -> ColumnType:
        return COLUMN_TYPES[self.family]

    @property
    def is_default(self) -> bool:
        """Whether text has the database's own collation."""
        return self.collation == DEFAULT_COLLATION

    @property
    def duckdb_type(self) -> str:
        if self.family == "numeric":
            return render_duckdb(PrimitiveType(kind="decimal", precision=self.precision, scale=self.scale))
        return _DUCKDB[self.family]

    @property
    def postgres_type(self) -> str:
        return self.declared.name

    @property
    def arrow_type(self) -> pa.DataType:
        if self.family == "numeric":
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.family]

    @property
    def is_integer(self) -> bool:
        return self.declared.is_integer

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.family == "numeric"

    @property
    def is_float(self) -> bool:
        return self.declared.lake.is_float

    @property
    def is_datetime(self) -> bool:
        return self.family in ("date", "timestamp", "timestamptz")

    @property
    def has_equality(self) -> bool:
        """Whether values that are equal in DuckDB are equal in Postgres. Not for floats: -0 equals 0, and statistics
        omit NaN."""
        return self.declared.lake.order != "nan"

    @property
    def has_order(self) -> bool:
        return self.has_equality and (self.declared.lake.order != "collation" or self.is_c)


_DUCKDB: Mapping[str, str] = {
    declared.typname: declared.duckdb or render_duckdb(PrimitiveType(kind=declared.lake.name))
    for declared in COLUMN_TYPES.values()
    if not declared.lake.parameters
}
_ARROW: Mapping[str, pa.DataType] = {
    declared.typname: build_arrow(declared.arrow or declared.lake.duckdb_arrow or declared.lake.arrow)
    for declared in COLUMN_TYPES.values()
    if not declared.lake.parameters
}
_PLAIN: Mapping[int, SqlType] = {
    declared.oid: SqlType(family="text" if declared.constant == "text" else declared.typname, oid=declared.oid)
    for declared in COLUMN_TYPES.values()
    if not declared.lake.parameters
}

BOOL = _PLAIN[column_types.BOOL.oid]
INT2 = _PLAIN[column_types.INT2.oid]
INT4 = _PLAIN[column_types.INT4.oid]
INT8 = _PLAIN[column_types.INT8.oid]
FLOAT8 = _PLAIN[column_types.FLOAT8.oid]
TEXT = _PLAIN[column_types.TEXT.oid]
DATE = _PLAIN[column_types.DATE.oid]
TIMESTAMP = _PLAIN[column_types.TIMESTAMP.oid]
TIMESTAMPTZ = _PLAIN[column_types.TIMESTAMPTZ.oid]


def numeric(precision: int, scale: int) -> SqlType:
    return SqlType(
        family=column_types.NUMERIC.typname,
        oid=column_types.NUMERIC.oid,
        precision=min(MAX_PRECISION, max(precision, scale, 1)),
        scale=scale,
    )


def column_sql_type(oid: int, modifier: int, *, is_c: bool, is_deterministic: bool, collation: int) -> SqlType | None:
    """The type of a column as Postgres declares it, or `None` when DuckDB cannot hold it exactly."""
    if oid == column_types.NUMERIC.oid:
        precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
        return (
            numeric(precision, scale) if modifier >= 4 and precision <= MAX_PRECISION and scale <= precision else None
        )
    sql_type = _PLAIN.get(oid)
    if sql_type is None or sql_type.family != "text":
        return sql_type
    return replace(sql_type, is_c=is_c, collation=collation) if is_deterministic else None


def sql_type_of_oid(oid: int) -> SqlType | None:
    """The type of a value with this OID and without a modifier."""
    return _PLAIN.get(oid)


def integer_to_numeric(sql_type: SqlType) -> SqlType:
    """An integer type as the numeric type that holds its values."""
    return sql_type if sql_type.family == "numeric" else numeric(len(str(1 << sql_type.declared.value_bits)), 0)


def check_common_decimal(one: SqlType, two: SqlType) -> None:
    """Raise unless a decimal holds both types: DuckDB compares exact numbers in a common decimal, and else as
    floats."""
    first, second = integer_to_numeric(one), integer_to_numeric(two)
    scale = max(first.scale, second.scale)
    if max(first.precision - first.scale, second.precision - second.scale) + scale > MAX_PRECISION:
        raise NotProvable("numbers that no decimal holds together are left to Postgres")


def resolve_collation(one: SqlType, two: SqlType) -> SqlType:
    """The first type with the collation of both: another collation wins over the database's default; two different
    others have no common one."""
    if one.collation == two.collation or two.is_default:
        return one
    if not one.is_default:
        raise NotProvable("text of different collations is left to Postgres")
    return replace(one, collation=two.collation, is_c=two.is_c)
