"""Primitive types of Iceberg: what each engine calls them, how values are stored, written and ordered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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

MAX_DECIMAL_PRECISION = 38
MICROSECONDS_PER_DAY = 86_400_000_000
FIRST_DAY = -2_440_588
"""4714-11-24 BC, Postgres' first date, in days since 1970-01-01."""
LAST_DAY = 2_145_031_948
"""5874897-12-31, Postgres' last date."""
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * MICROSECONDS_PER_DAY
_INFINITIES = ("-infinity", "infinity")
_FIRST_WITH_SQL_HASHES = 180_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeType:
    """A primitive type of Iceberg.

    `name` leaves out the `parameters`, which `PrimitiveType` has. `arrow` is the pyarrow factory and its arguments
    ahead of the parameters; `duckdb`, `spark` and `trino` are the types that these engines show, none where they cannot
    read it; `duckdb_arrow` is what DuckDB exports where that differs. `duckdb_value` makes a DuckDB
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
    spark: str | None = None
    trino: str | None = None
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


_LAKE_TYPES = (
    LakeType(
        name="boolean",
        storage="boolean",
        text_form="boolean",
        arrow=("bool_",),
        duckdb="BOOLEAN",
        spark="boolean",
        trino="boolean",
        hash_function="hashint4extended",
        constants=("boolean",),
    ),
    LakeType(
        name="int",
        storage="int4",
        text_form="integer",
        arrow=("int32",),
        duckdb="INTEGER",
        spark="int",
        trino="integer",
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
        spark="bigint",
        trino="bigint",
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
        spark="float",
        trino="real",
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
        spark="double",
        trino="double",
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
        spark="decimal",
        trino="decimal",
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
        spark="date",
        trino="date",
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
        trino="time(6)",
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
        spark="timestamp_ntz",
        trino="timestamp(6)",
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
        spark="timestamp",
        trino="timestamp(6) with time zone",
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
        spark="string",
        trino="uuid",
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
        spark="binary",
        trino="varbinary",
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
        spark="string",
        trino="varchar",
        hash_function="hashtextextended",
        constants=("text",),
    ),
    # No type of Postgres is held as one of these; lakes that other programs write may have them.
    LakeType(name="fixed", storage="bytes", text_form="hex", arrow=("binary",), parameters=("length",)),
    LakeType(name="timestamp_ns", storage="int8", text_form="timestamp", arrow=("timestamp", "ns")),
    LakeType(name="timestamptz_ns", storage="int8", text_form="timestamptz", arrow=("timestamp", "ns", "UTC")),
)
LAKE_TYPES: Mapping[str, LakeType] = {declared.name: declared for declared in _LAKE_TYPES}


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


def render_duckdb_value(declared: LakeType) -> str:
    """The DuckDB expression that makes a value of the type from a parameter."""
    return declared.duckdb_value or f"CAST(? AS {declared.duckdb})"
