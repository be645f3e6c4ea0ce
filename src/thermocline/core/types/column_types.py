"""Types of Postgres that the lake holds natively, and those it cannot hold faithfully even as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from thermocline.core.types.lake_types import LAKE_TYPES, LakeType

Form = Literal["native", "text"]
AxisUnit = Literal["number", "day", "microsecond"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAxis:
    """How a type maps to the 64-bit axis. `from_axis` is the SQL function of schema `thermocline` that gives the value
    back; integers need none."""

    unit: AxisUnit
    from_axis: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A type of Postgres that the lake holds natively.

    `typname` is pg_type.typname, `name` is format_type() without a modifier, `size` is pg_type.typlen. `constant` is
    what constants of the type are read as. `wire` is the numpy type of a binary value of fixed width. `duckdb` and
    `arrow` are given where the heap's values are narrower than the lake's. `widens_to` are the types that hold every
    value unchanged, in both tiers.
    """

    typname: str
    name: str
    oid: int
    size: int
    lake: LakeType
    constant: str
    wire: str | None = None
    duckdb: str | None = None
    arrow: tuple[str, ...] | None = None
    widens_to: tuple[str, ...] = ()
    axis: TierAxis | None = None

    @property
    def is_integer(self) -> bool:
        return self.lake.text_form == "integer"

    @property
    def value_bits(self) -> int:
        """Bits of an integer without its sign."""
        return 8 * self.size - 1


_NUMBERS = TierAxis(unit="number")

BOOL = ColumnType(
    typname="bool", name="boolean", oid=16, size=1, lake=LAKE_TYPES["boolean"], constant="boolean", wire="u1"
)
INT2 = ColumnType(
    typname="int2",
    name="smallint",
    oid=21,
    size=2,
    lake=LAKE_TYPES["int"],
    constant="int",
    wire=">i2",
    duckdb="SMALLINT",
    arrow=("int16",),
    widens_to=("int4", "int8"),
    axis=_NUMBERS,
)
INT4 = ColumnType(
    typname="int4",
    name="integer",
    oid=23,
    size=4,
    lake=LAKE_TYPES["int"],
    constant="int",
    wire=">i4",
    widens_to=("int8",),
    axis=_NUMBERS,
)
INT8 = ColumnType(
    typname="int8", name="bigint", oid=20, size=8, lake=LAKE_TYPES["long"], constant="int", wire=">i8", axis=_NUMBERS
)
FLOAT4 = ColumnType(
    typname="float4",
    name="real",
    oid=700,
    size=4,
    lake=LAKE_TYPES["float"],
    constant="float",
    wire=">f4",
    widens_to=("float8",),
)
FLOAT8 = ColumnType(
    typname="float8", name="double precision", oid=701, size=8, lake=LAKE_TYPES["double"], constant="double", wire=">f8"
)
NUMERIC = ColumnType(
    typname="numeric",
    name="numeric",
    oid=1700,
    size=-1,
    lake=LAKE_TYPES["decimal"],
    constant="decimal",
    widens_to=("numeric",),
)
DATE = ColumnType(
    typname="date",
    name="date",
    oid=1082,
    size=4,
    lake=LAKE_TYPES["date"],
    constant="date",
    wire=">i4",
    axis=TierAxis(unit="day", from_axis="key_date"),
)
TIME = ColumnType(
    typname="time",
    name="time without time zone",
    oid=1083,
    size=8,
    lake=LAKE_TYPES["time"],
    constant="time",
    wire=">i8",
)
TIMESTAMP = ColumnType(
    typname="timestamp",
    name="timestamp without time zone",
    oid=1114,
    size=8,
    lake=LAKE_TYPES["timestamp"],
    constant="timestamp",
    wire=">i8",
    axis=TierAxis(unit="microsecond", from_axis="key_timestamp"),
)
TIMESTAMPTZ = ColumnType(
    typname="timestamptz",
    name="timestamp with time zone",
    oid=1184,
    size=8,
    lake=LAKE_TYPES["timestamptz"],
    constant="timestamptz",
    wire=">i8",
    axis=TierAxis(unit="microsecond", from_axis="key_timestamptz"),
)
UUID = ColumnType(typname="uuid", name="uuid", oid=2950, size=16, lake=LAKE_TYPES["uuid"], constant="uuid")
BYTEA = ColumnType(typname="bytea", name="bytea", oid=17, size=-1, lake=LAKE_TYPES["binary"], constant="binary")
TEXT = ColumnType(
    typname="text",
    name="text",
    oid=25,
    size=-1,
    lake=LAKE_TYPES["string"],
    constant="text",
    widens_to=("text", "varchar"),
)
VARCHAR = ColumnType(
    typname="varchar",
    name="character varying",
    oid=1043,
    size=-1,
    lake=LAKE_TYPES["string"],
    constant="text",
    widens_to=("text", "varchar"),
)

_IN_ORDER = (
    *(BOOL, INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC),
    *(DATE, TIME, TIMESTAMP, TIMESTAMPTZ, UUID, BYTEA, TEXT, VARCHAR),
)
COLUMN_TYPES: Mapping[str, ColumnType] = {declared.typname: declared for declared in _IN_ORDER}
COLUMN_TYPES_BY_OID: Mapping[int, ColumnType] = {declared.oid: declared for declared in _IN_ORDER}
COLUMN_TYPES_BY_NAME: Mapping[str, ColumnType] = {declared.name: declared for declared in _IN_ORDER}
POSTGRES_TYPES: Mapping[str, ColumnType] = {
    lake.name: max((found for found in _IN_ORDER if found.lake is lake), key=lambda found: found.size)
    for lake in LAKE_TYPES.values()
    if any(found.lake is lake for found in _IN_ORDER)
}
"""For each lake type that a Postgres type is held as, the widest such type: it shows columns that nobody declared."""

UNFAITHFUL_TYPES = (
    *("money", "reg[a-z]+", "aclitem", "gtsvector", "pg_node_tree", "pg_[a-z_]*stat[a-z_]*", "pg_ndistinct"),
    *("pg_dependencies", "pg_mcv_list", "pg_brin_[a-z_]+", "refcursor", "cstring", "record", "void", "unknown"),
)
"""Patterns of built-in types whose text form does not read back as the same value everywhere; their arrays too."""
_UNFAITHFUL = re.compile(rf"_?({'|'.join(UNFAITHFUL_TYPES)})")


def is_unfaithful(typname: str) -> bool:
    """Whether a built-in type's text form may read back as another value."""
    return _UNFAITHFUL.fullmatch(typname) is not None
