"""The table of column types: one declaration per type, read by every engine.

`LakeType` declares a primitive type of Iceberg: its Arrow and DuckDB types, how its values are stored and written, how
they are ordered, and which values of Postgres it cannot hold. `ColumnType` declares a Postgres type that the lake holds
natively: its name and OID, the lake type it is held as, and its use as a tier key. Every other Postgres type is held as
`string` in Postgres' own text form and cast back by the seam; no value is stored as an approximation.

A new type is one declaration here. Each engine derives its own mapping from it: Arrow in `parquet/values/arrow_types.py`,
row hashes in `parquet/values/row_checksum.py`, DuckDB in `gateway/sql/query/kinds.py`, the wire in
`gateway/wire/binary_format.py`, SQL functions from the table `thermocline.column_types`. `tests/unit/test_type_table.py`
compares every declaration with the engines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Form = Literal["native", "text"]

Storage = Literal["boolean", "int4", "int8", "float4", "float8", "decimal", "uuid", "text", "bytes"]
"""Iceberg's single-value serialization of a type, which its bounds and its row hashes follow."""

TextForm = Literal[
    "boolean", "integer", "float", "decimal", "date", "time", "timestamp", "timestamptz", "uuid", "hex", "plain"
]
"""How Postgres writes a value as text under ISO dates, UTC and hex bytea."""

Order = Literal["same", "collation", "nan"]
"""How the lake's order and equality relate to Postgres'. `same`: they agree. `collation`: the lake compares bytes, so
they agree where the column's collation does. `nan`: NaN is equal to itself and above every number in Postgres, file
bounds leave it out, and zero has two signs."""

AxisUnit = Literal["number", "day", "microsecond"]

MAX_DECIMAL_PRECISION = 38
MICROSECONDS_PER_DAY = 86_400_000_000
FIRST_DAY = -2_440_588
"""4714-11-24 BC, Postgres' first date, in days since 1970-01-01."""
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * MICROSECONDS_PER_DAY
_INFINITIES = ("-infinity", "infinity")
_FIRST_WITH_SQL_HASHES = 180_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeType:
    """A primitive type of Iceberg.

    `name` leaves out the `parameters`, which `PrimitiveType` has. `arrow` is the pyarrow factory and its arguments
    ahead of the parameters; `duckdb_arrow` is what DuckDB exports where that differs. `duckdb_value` makes a DuckDB
    value from a parameter: dates from days, times and timestamps from microseconds. `hash_function` is the function of
    Postgres that row hashes use, callable from SQL since server version `hash_function_since`. `postgres_epoch` is
    Postgres' epoch on the lake's axis. Values outside `lowest` and `highest` are not held; `not_held` names the values
    of Postgres that have no lake form. `constants` are the types of constants that compare with a column exactly.
    """

    name: str
    storage: Storage
    text_form: TextForm
    arrow: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    order: Order = "same"
    duckdb: str | None = None
    duckdb_arrow: tuple[str, ...] | None = None
    duckdb_value: str | None = None
    hash_function: str | None = None
    hash_function_since: int = 0
    postgres_epoch: int = 0
    lowest: int | None = None
    highest: int | None = None
    not_held: tuple[str, ...] = ()
    promotes_to: str | None = None
    constants: tuple[str, ...] = ()

    @property
    def is_integral(self) -> bool:
        """Whether values are whole numbers to Iceberg: integers, days, microseconds."""
        return self.storage in ("int4", "int8")

    @property
    def is_float(self) -> bool:
        return self.storage in ("float4", "float8")

    @property
    def is_bytes(self) -> bool:
        """Whether values are ordered as unsigned bytes."""
        return self.storage in ("text", "uuid", "bytes")


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


_LAKE_TYPES = (
    LakeType(
        name="boolean",
        storage="boolean",
        text_form="boolean",
        arrow=("bool_",),
        duckdb="BOOLEAN",
        hash_function="hashint4extended",
        constants=("boolean",),
    ),
    LakeType(
        name="int",
        storage="int4",
        text_form="integer",
        arrow=("int32",),
        duckdb="INTEGER",
        # Constants may be beyond the column's range, and DuckDB compares both as BIGINT.
        duckdb_value="CAST(? AS BIGINT)",
        hash_function="hashint4extended",
        promotes_to="long",
        constants=("int", "number"),
    ),
    LakeType(
        name="long",
        storage="int8",
        text_form="integer",
        arrow=("int64",),
        duckdb="BIGINT",
        hash_function="hashint8extended",
        constants=("int", "number"),
    ),
    LakeType(
        name="float",
        storage="float4",
        text_form="float",
        arrow=("float32",),
        order="nan",
        duckdb="FLOAT",
        hash_function="hashfloat4extended",
        promotes_to="double",
        constants=("float", "double", "number"),
    ),
    LakeType(
        name="double",
        storage="float8",
        text_form="float",
        arrow=("float64",),
        order="nan",
        duckdb="DOUBLE",
        hash_function="hashfloat8extended",
        constants=("float", "double", "number"),
    ),
    LakeType(
        name="decimal",
        storage="decimal",
        text_form="decimal",
        arrow=("decimal128",),
        parameters=("precision", "scale"),
        duckdb="DECIMAL",
        hash_function="hashint8extended",
        not_held=("NaN",),
        constants=("decimal", "int", "number"),
    ),
    LakeType(
        name="date",
        storage="int4",
        text_form="date",
        arrow=("date32",),
        duckdb="DATE",
        duckdb_value="(DATE '1970-01-01' + CAST(? AS INTEGER))",
        hash_function="hashdateextended",
        hash_function_since=_FIRST_WITH_SQL_HASHES,
        postgres_epoch=_DAYS_TO_2000,
        lowest=FIRST_DAY,
        not_held=_INFINITIES,
        constants=("date",),
    ),
    LakeType(
        name="time",
        storage="int8",
        text_form="time",
        arrow=("time64", "us"),
        duckdb="TIME",
        duckdb_value="(TIME '00:00:00' + to_microseconds(CAST(? AS BIGINT)))",
        hash_function="time_hash_extended",
        highest=MICROSECONDS_PER_DAY - 1,
        not_held=("24:00:00",),
        constants=("time",),
    ),
    LakeType(
        name="timestamp",
        storage="int8",
        text_form="timestamp",
        arrow=("timestamp", "us"),
        duckdb="TIMESTAMP",
        duckdb_value="make_timestamp(CAST(? AS BIGINT))",
        hash_function="timestamp_hash_extended",
        postgres_epoch=_MICROSECONDS_TO_2000,
        lowest=FIRST_DAY * MICROSECONDS_PER_DAY,
        not_held=_INFINITIES,
        constants=("timestamp",),
    ),
    LakeType(
        name="timestamptz",
        storage="int8",
        text_form="timestamptz",
        arrow=("timestamp", "us", "UTC"),
        duckdb="TIMESTAMPTZ",
        duckdb_value="make_timestamptz(CAST(? AS BIGINT))",
        hash_function="timestamptz_hash_extended",
        hash_function_since=_FIRST_WITH_SQL_HASHES,
        postgres_epoch=_MICROSECONDS_TO_2000,
        lowest=FIRST_DAY * MICROSECONDS_PER_DAY,
        not_held=_INFINITIES,
        constants=("timestamptz",),
    ),
    LakeType(
        name="uuid",
        storage="uuid",
        text_form="uuid",
        arrow=("uuid",),
        duckdb="UUID",
        duckdb_arrow=("string",),
        hash_function="uuid_hash_extended",
        constants=("uuid",),
    ),
    LakeType(
        name="binary",
        storage="bytes",
        text_form="hex",
        arrow=("binary",),
        duckdb="BLOB",
        hash_function="hashbyteaextended",
        hash_function_since=_FIRST_WITH_SQL_HASHES,
        constants=("binary",),
    ),
    LakeType(
        name="string",
        storage="text",
        text_form="plain",
        arrow=("string",),
        order="collation",
        duckdb="VARCHAR",
        hash_function="hashtextextended",
        constants=("text",),
    ),
    # No type of Postgres is held as one of these; lakes that other programs write may have them.
    LakeType(name="fixed", storage="bytes", text_form="hex", arrow=("binary",), parameters=("length",)),
    LakeType(name="timestamp_ns", storage="int8", text_form="timestamp", arrow=("timestamp", "ns")),
    LakeType(name="timestamptz_ns", storage="int8", text_form="timestamptz", arrow=("timestamp", "ns", "UTC")),
)
LAKE_TYPES: Mapping[str, LakeType] = {declared.name: declared for declared in _LAKE_TYPES}

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
    lake.name: next(found for found in (*(INT4, TEXT), *_IN_ORDER) if found.lake is lake)
    for lake in _LAKE_TYPES
    if any(found.lake is lake for found in _IN_ORDER)
}
"""The type of Postgres that shows a lake type whose column nobody declared; it holds every value of it."""

UNFAITHFUL_TYPES = (
    *("money", "reg[a-z]+", "aclitem", "gtsvector", "pg_node_tree", "pg_[a-z_]*stat[a-z_]*", "pg_ndistinct"),
    *("pg_dependencies", "pg_mcv_list", "pg_brin_[a-z_]+", "refcursor", "cstring", "record", "void", "unknown"),
)
"""Patterns of built-in types whose text form does not read back as the same value everywhere; their arrays too."""
_UNFAITHFUL = re.compile(rf"_?({'|'.join(UNFAITHFUL_TYPES)})")


def is_unfaithful(typname: str) -> bool:
    """Whether a built-in type's text form may read back as another value."""
    return _UNFAITHFUL.fullmatch(typname) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveType:
    """A lake type with its parameters; `kind` is its name without them."""

    kind: str
    precision: int = 0
    scale: int = 0
    length: int = 0

    @property
    def declared(self) -> LakeType:
        return LAKE_TYPES[self.kind]

    @property
    def parameters(self) -> tuple[int, ...]:
        """The parameters in the order in which every engine takes them."""
        return tuple(getattr(self, name) for name in self.declared.parameters)

    def __str__(self) -> str:
        """As Iceberg writes it: `decimal(9, 2)`, `fixed[16]`, `string`."""
        if self.kind == "fixed":
            return f"fixed[{self.length}]"
        return f"decimal({self.precision}, {self.scale})" if self.kind == "decimal" else self.kind


_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")


@lru_cache(maxsize=1024)
def parse_lake_type(text: str) -> PrimitiveType | None:
    """The type that Iceberg writes so; None for one that is not primitive or not known."""
    if (declared := LAKE_TYPES.get(text)) is not None:
        return None if declared.parameters else PrimitiveType(kind=text, length=16 if text == "uuid" else 0)
    if found := _DECIMAL.fullmatch(text):
        return PrimitiveType(kind="decimal", precision=int(found[1]), scale=int(found[2]))
    if found := _FIXED.fullmatch(text):
        return PrimitiveType(kind="fixed", length=int(found[1]))
    return None


def lake_type_named(text: str) -> LakeType:
    """The declaration of a lake type that we wrote ourselves."""
    found = parse_lake_type(text)
    if found is None:
        raise KeyError(text)
    return found.declared


def render_duckdb(found: PrimitiveType) -> str:
    """The DuckDB type that holds this lake type."""
    name = found.declared.duckdb
    if name is None:
        raise KeyError(found.kind)
    return f"{name}({', '.join(map(str, found.parameters))})" if found.parameters else name
