"""Every declared column type agrees with the engines: pyarrow, DuckDB, pyiceberg, sqlglot and the modules that use it.

A new type is one declaration in `core/types.py`; these tests fail where an engine lacks what the declaration says.
"""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyiceberg.types import PrimitiveType as IcebergPrimitive
from sqlglot import exp

from thermocline.core.axis import KeyType
from thermocline.core.column_bounds import decode_bound, lower_bound
from thermocline.core.columns import LakeColumn
from thermocline.core.plan.schema_change import iceberg_default
from thermocline.core.tier_key import key_type_of
from thermocline.core.types import (
    COLUMN_TYPES,
    COLUMN_TYPES_BY_NAME,
    COLUMN_TYPES_BY_OID,
    LAKE_TYPES,
    MICROSECONDS_PER_DAY,
    POSTGRES_TYPES,
    ColumnType,
    LakeType,
    PrimitiveType,
    TextForm,
    parse_lake_type,
    render_duckdb,
    render_duckdb_value,
)
from thermocline.gateway.lake_arm.text_rows import text_to_binary
from thermocline.gateway.sql.column_mapping import map_column
from thermocline.gateway.sql.expressions.sql_types import column_sql_type
from thermocline.gateway.sql.parameters import parse_parameters
from thermocline.gateway.sql.pushdown.operands import constant_type
from thermocline.gateway.sql.values import Constant, parse_value
from thermocline.gateway.wire.binary_format import to_binary
from thermocline.gateway.wire.row_encoding import to_text
from thermocline.lake.read.table_metadata import LakeField
from thermocline.parquet.values.arrow_types import arrow_of_primitive, lake_type_of_arrow, missing_scalar
from thermocline.parquet.values.row_checksum import hash_column
from thermocline.spark.kernels.select_list import plan_row_hash

COLUMNS = tuple(COLUMN_TYPES.values())
LAKE = tuple(LAKE_TYPES.values())
HELD = tuple(LAKE_TYPES[name] for name in POSTGRES_TYPES)
TEXTS: dict[TextForm, str] = {
    "boolean": "t",
    "integer": "17",
    "float": "1.5",
    "decimal": "1.50",
    "date": "2026-03-01",
    "time": "01:02:03.000004",
    "timestamp": "2026-03-01 01:02:03.000004",
    "timestamptz": "2026-03-01 01:02:03.000004+00",
    "uuid": "00112233-4455-6677-8899-aabbccddeeff",
    "hex": "\\x00ff",
    "plain": "a'b",
}
"""One value of each text form, as Postgres prints it."""


def by_name(declared: ColumnType | LakeType) -> str:
    return declared.name


def primitive(declared: LakeType) -> PrimitiveType:
    return PrimitiveType(
        kind=declared.name,
        precision=9 if "precision" in declared.parameters else 0,
        scale=2 if "scale" in declared.parameters else 0,
        length=16 if declared.name == "uuid" else 3 if "length" in declared.parameters else 0,
    )


def iceberg_of(declared: LakeType) -> IcebergPrimitive:
    field = NestedField.model_validate({"id": 1, "name": "c", "type": str(primitive(declared)), "required": False})
    assert isinstance(field.field_type, IcebergPrimitive)
    return field.field_type


def column_of(declared: LakeType) -> LakeColumn:
    shown = POSTGRES_TYPES[declared.name]
    return LakeColumn(
        name="c",
        field_id=1,
        base_type=shown.typname,
        pg_type=shown.name,
        lake_type=str(primitive(declared)),
        form="native",
        required=False,
    )


def test_names_and_oids_are_unique() -> None:
    assert len(COLUMN_TYPES) == len(COLUMN_TYPES_BY_OID) == len(COLUMN_TYPES_BY_NAME)
    assert {declared.text_form for declared in LAKE} == set(TEXTS)
    assert {target for declared in COLUMNS for target in declared.widens_to} <= set(COLUMN_TYPES)
    assert {declared.promotes_to for declared in LAKE} - {None} <= set(LAKE_TYPES)


@pytest.mark.parametrize("declared", LAKE, ids=by_name)
def test_iceberg_reads_and_writes_the_type_under_its_name(declared: LakeType) -> None:
    assert str(iceberg_of(declared)) == str(primitive(declared))
    assert parse_lake_type(str(primitive(declared))) == primitive(declared)


@pytest.mark.parametrize("declared", LAKE, ids=by_name)
def test_arrow_has_the_type_that_iceberg_gives_it(declared: LakeType) -> None:
    theirs = schema_to_pyarrow(Schema(NestedField(1, "c", iceberg_of(declared)))).field(0).type
    ours = arrow_of_primitive(primitive(declared))
    same = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(theirs, theirs)
    assert ours == (pa.uuid() if theirs == pa.binary(16) else same)
    if declared in HELD:
        assert lake_type_of_arrow(ours) == str(primitive(declared))


@pytest.mark.parametrize("declared", HELD, ids=by_name)
def test_duckdb_has_the_type_and_exports_the_declared_arrow(declared: LakeType) -> None:
    name = render_duckdb(primitive(declared))
    with duckdb.connect() as conn:
        conn.execute("set timezone = 'UTC'")
        kind = conn.execute(f"select typeof(cast(null as {name}))").fetchall()[0][0]
        exported = conn.execute(f"select cast(null as {name}) as c").to_arrow_table().schema.field(0).type
        assert kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ").replace(",", ", ") == name
    spec = declared.duckdb_arrow or declared.arrow
    assert exported == getattr(pa, spec[0])(*spec[1:], *primitive(declared).parameters)


@pytest.mark.parametrize("declared", HELD, ids=by_name)
def test_a_constant_in_text_form_becomes_the_same_value_in_duckdb(declared: LakeType) -> None:
    text = TEXTS[declared.text_form]
    value = parse_value(declared.name, Constant(text, "unknown"))
    given = str(value) if isinstance(value, uuid.UUID | Decimal) else value
    name = render_duckdb(primitive(declared))
    made = render_duckdb_value(declared) if not declared.parameters else f"CAST(? AS {name})"
    with duckdb.connect() as conn:
        conn.execute("set timezone = 'UTC'")
        found = conn.execute(f"select cast({made} as {name}) as c", [given]).to_arrow_table().column(0).combine_chunks()
    assert to_text(found).to_pylist() == [text]


@pytest.mark.parametrize("declared", HELD, ids=by_name)
def test_a_default_in_text_form_is_the_same_for_arrow_and_iceberg(declared: LakeType) -> None:
    text = TEXTS[declared.text_form]
    column = column_of(declared)
    scalar = missing_scalar(text, column.lake_type)
    assert scalar.type == arrow_of_primitive(primitive(declared))
    assert missing_scalar(None, column.lake_type).as_py() is None
    assert type(iceberg_default(text, column.lake_type)) in (bool, int, str)


@pytest.mark.parametrize("declared", LAKE, ids=by_name)
def test_bounds_are_stored_as_iceberg_stores_single_values(declared: LakeType) -> None:
    held: dict[str, tuple[int | float | bytes, bool | int | float | Decimal | uuid.UUID | str | bytes]] = {
        "boolean": (1, True),
        "int4": (-17, -17),
        "int8": (-17, -17),
        "float4": (1.5, 1.5),
        "float8": (1.5, 1.5),
        "decimal": (-150, Decimal("-1.50")),
        "uuid": (bytes(range(16)), uuid.UUID(bytes=bytes(range(16)))),
        "text": ("ä".encode(), "ä"),
        "bytes": (b"\x00\xff\x01", b"\x00\xff\x01"),
    }
    ours, theirs = held[declared.storage]
    encoded = lower_bound(primitive(declared), ours, None)
    assert encoded == to_bytes(iceberg_of(declared), theirs)
    assert decode_bound(primitive(declared), encoded) == ours


@pytest.mark.parametrize("declared", HELD, ids=by_name)
@pytest.mark.parametrize("server_version", [0, 180_000])
def test_rows_are_hashed_on_both_sides(declared: LakeType, server_version: int) -> None:
    column = column_of(declared)
    array = pa.array(
        [missing_scalar(TEXTS[declared.text_form], column.lake_type), None], arrow_of_primitive(primitive(declared))
    )
    prepared = array.storage if isinstance(array, pa.ExtensionArray) else array
    prepared = prepared.cast(pa.uint8()) if pa.types.is_boolean(prepared.type) else prepared
    hashes = hash_column(prepared, column, 1)
    assert [bool(found) for found in hashes] == [True, False]
    text = plan_row_hash([column], server_version).as_string(None)
    called = declared.hash_function if server_version >= declared.hash_function_since else "hash_record_extended"
    assert str(called) in text


@pytest.mark.parametrize("declared", COLUMNS, ids=by_name)
def test_the_gateway_knows_the_type_as_column_constant_parameter_and_cast(declared: ColumnType) -> None:
    modifier = ((9 << 16) | 2) + 4 if declared.lake.parameters else -1
    sql_type = column_sql_type(declared.oid, modifier, is_c=True, is_deterministic=True, collation=100)
    assert sql_type is not None
    assert sql_type.oid == declared.oid
    with duckdb.connect() as conn:
        exported = (
            conn.execute(f"select cast(null as {sql_type.duckdb_type}) as c").to_arrow_table().schema.field(0).type
        )
    assert exported == sql_type.arrow_type or pa.types.is_timestamp(exported)
    assert constant_type(exp.DataType.build(declared.name, dialect="postgres")) == declared.constant
    text = TEXTS[declared.lake.text_form].encode()
    (constant,) = parse_parameters([text], [declared.oid])
    assert constant.type == declared.constant
    assert declared.constant in declared.lake.constants
    parse_value(declared.lake.name, constant)


@pytest.mark.parametrize("declared", COLUMNS, ids=by_name)
def test_text_and_arrow_have_one_binary_form(declared: ColumnType) -> None:
    text = TEXTS[declared.lake.text_form]
    array = pa.array(
        [missing_scalar(text, str(primitive(declared.lake)))], arrow_of_primitive(primitive(declared.lake))
    )
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    (binary,) = to_binary(array, declared.oid).to_pylist()
    assert binary == text_to_binary(text.encode(), declared.oid)
    assert declared.size in (-1, len(binary))
    assert (declared.wire is None) or np.dtype(declared.wire).itemsize == declared.size


@pytest.mark.parametrize("declared", HELD, ids=by_name)
def test_a_lake_column_that_nobody_declared_is_shown_as_a_type_that_holds_it(declared: LakeType) -> None:
    shape = primitive(declared)
    field = LakeField(name="c", field_id=1, kind=shape.kind, precision=shape.precision, scale=shape.scale, missing=None)
    mapped = map_column(field, None)
    assert mapped is not None
    assert COLUMN_TYPES_BY_OID[mapped.type_oid] is POSTGRES_TYPES[declared.name]
    assert mapped.duckdb_type == render_duckdb(shape)


def test_a_tier_key_is_a_type_with_an_axis() -> None:
    found = {name: key_type_of(name) for name in COLUMN_TYPES}
    assert {name for name, key in found.items() if key} == {d.typname for d in COLUMNS if d.axis is not None}
    assert {key for key in found.values() if key} == set(KeyType)
    for key in KeyType:
        axis = key.column_type.axis
        assert axis is not None
        assert (axis.from_axis is None) is key.is_integer


def test_ranges_end_where_python_says_they_do() -> None:
    epoch = dt.date(1970, 1, 1)
    for declared in LAKE:
        if declared.postgres_epoch:
            unit = 1 if declared.storage == "int4" else MICROSECONDS_PER_DAY
            assert declared.postgres_epoch == (dt.date(2000, 1, 1) - epoch).days * unit
            assert declared.lowest == -2_440_588 * unit
        assert bool(declared.not_held) is (
            declared.lowest is not None or declared.highest is not None or declared.storage == "decimal"
        )
