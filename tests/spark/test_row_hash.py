"""The lake's row hash equals Postgres' own, value by value, on the oldest and the newest Postgres we support."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from thermocline.core.columns import LakeColumn
from thermocline.parquet.values.arrow_types import arrow_schema, arrow_type, lake_array, travels_whole
from thermocline.parquet.values.row_checksum import (
    LONG_BYTES,
    decimal_text,
    hash_column,
    seed_of,
    sum_hashes,
    sum_table_rows,
)
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port
from thermocline.spark.kernels.select_list import plan_row_hash, plan_value

OLDEST, NEWEST = "14.20.0", "18.1.0"
UTC = dt.UTC
LONG = st.integers(LONG_BYTES - 2, LONG_BYTES + 2)
NO_ZERO = st.characters(codec="utf-8", exclude_characters="\x00")


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    # Not by scaleb: Python's default context would round what has more than 28 digits.
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(
        lambda unscaled: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    )


VALUES: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("bool", "boolean"): st.booleans(),
    ("int2", "int"): st.integers(-(2**15), 2**15 - 1),
    ("int4", "int"): st.integers(-(2**31), 2**31 - 1),
    ("int8", "long"): st.integers(-(2**63), 2**63 - 1),
    ("float4", "float"): st.floats(width=32),
    ("float8", "double"): st.floats(),
    ("numeric(12,2)", "decimal(12, 2)"): decimals(12, 2),
    ("numeric(18,4)", "decimal(18, 4)"): decimals(18, 4),
    ("numeric(18,18)", "decimal(18, 18)"): decimals(18, 18),
    ("numeric(5,0)", "decimal(5, 0)"): decimals(5, 0),
    ("numeric(19,2)", "decimal(19, 2)"): decimals(19, 2),
    ("numeric(38,10)", "decimal(38, 10)"): decimals(38, 10),
    ("numeric(9,9)", "decimal(9, 9)"): decimals(9, 9),
    ("numeric(38,0)", "decimal(38, 0)"): decimals(38, 0),
    ("date", "date"): st.dates(),
    ("time", "time"): st.times(),
    ("timestamp", "timestamp"): st.datetimes(),
    ("timestamptz", "timestamptz"): st.datetimes(timezones=st.just(UTC)),
    ("uuid", "uuid"): st.uuids(),
    ("bytea", "binary"): st.binary(max_size=60) | LONG.map(lambda size: b"\xfe" * size),
    ("text", "string"): st.text(NO_ZERO, max_size=40)
    | LONG.map(lambda size: "a" * size)
    | LONG.map(lambda size: "é" * (size // 2)),
}


@pytest.fixture(scope="module", params=[OLDEST, NEWEST])
def conn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[Any]]:
    place = tmp_path_factory.mktemp("hash") / "pg"
    server = PostgresServer(place, free_port(), FAST_TEST_SETTINGS, password="hash", version=request.param)
    server.init()
    server.start()
    with closing(connect(server.dsn(), autocommit=True)) as opened:
        yield opened
    server.remove()


def lake_column(position: int, base_type: str, lake_type: str) -> LakeColumn:
    name = f"c{position}"
    return LakeColumn(
        name=name,
        field_id=position + 1,
        base_type=base_type,
        pg_type=base_type,
        lake_type=lake_type,
        form="native",
        required=False,
    )


def hashed_by_postgres(conn: psycopg.Connection[Any], columns: list[LakeColumn], rows: list[list[Any]]) -> list[int]:
    """Each row's hash by the very expression a copy uses."""
    casts = [sql.SQL("%s::" + c.pg_type) for c in columns]
    values = sql.SQL(", ").join(
        sql.SQL("({}, {})").format(sql.Literal(number), sql.SQL(", ").join(casts)) for number in range(len(rows))
    )
    names = sql.SQL(", ").join(sql.Identifier(c.name) for c in columns)
    forms = sql.SQL(", ").join(sql.SQL("{} as {}").format(plan_value(c), sql.Identifier(c.name)) for c in columns)
    query = sql.SQL("select {} from (select n, {} from (values {}) v(n, {})) w order by n").format(
        plan_row_hash(columns, conn.info.server_version), forms, values, names
    )
    return [row[0] for row in conn.execute(query, [value for row in rows for value in row]).fetchall()]


def in_arrow(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


@pytest.mark.parametrize(("base_type", "lake_type"), VALUES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_each_value_hashes_as_in_postgres(
    conn: psycopg.Connection[Any], base_type: str, lake_type: str, data: st.DataObject
) -> None:
    values = data.draw(st.lists(VALUES[base_type, lake_type] | st.none(), min_size=1, max_size=40))
    column = lake_column(0, base_type, lake_type)
    array = pa.array([in_arrow(value) for value in values], arrow_type(lake_type))
    expected = hashed_by_postgres(conn, [column], [[value] for value in values])
    table = pa.table([array], schema=arrow_schema([column]))
    assert sum_table_rows(table, (column,)) == sum_hashes(np.array(expected, dtype=np.int64))
    prepared = decimal_text(array) if lake_type.startswith("decimal") and not travels_whole(lake_type) else array
    if lake_type in ("boolean", "uuid"):
        prepared = array.cast(pa.uint8()) if lake_type == "boolean" else array.storage
    assert hash_column(prepared, column, seed_of(0)).view(np.int64).tolist() == expected


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whole_rows_hash_as_in_postgres(conn: psycopg.Connection[Any], data: st.DataObject) -> None:
    columns = [lake_column(position, *kind) for position, kind in enumerate(VALUES)]
    rows = data.draw(
        st.lists(st.tuples(*(strategy | st.none() for strategy in VALUES.values())).map(list), min_size=1, max_size=10)
    )
    arrays = [pa.array([in_arrow(row[c.field_id - 1]) for row in rows], arrow_type(c.lake_type)) for c in columns]
    table = pa.table(arrays, schema=arrow_schema(columns))
    assert sum_table_rows(table, tuple(columns)) == sum_hashes(
        np.array(hashed_by_postgres(conn, columns, rows), dtype=np.int64)
    )


def test_the_sum_notices_two_rows_that_swapped_a_value() -> None:
    columns = (lake_column(0, "int8", "long"), lake_column(1, "text", "string"))
    right = pa.table([pa.array([1, 2]), pa.array(["a", "b"])], schema=arrow_schema(columns))
    torn = pa.table([pa.array([1, 2]), pa.array(["b", "a"])], schema=arrow_schema(columns))
    turned = pa.table([pa.array([2, 1]), pa.array(["b", "a"])], schema=arrow_schema(columns))
    assert sum_table_rows(right, columns) != sum_table_rows(torn, columns)
    assert sum_table_rows(right, columns) == sum_table_rows(turned, columns)


@pytest.mark.parametrize(
    ("base_type", "lake_type", "bits"), [("float8", "double", 0xFFF8_0000_0000_0001), ("float4", "float", 0xFFC0_0001)]
)
def test_a_nan_of_any_bits_hashes_as_in_postgres(
    conn: psycopg.Connection[Any], base_type: str, lake_type: str, bits: int
) -> None:
    """A heap may hold a NaN with a sign or a payload, which binary COPY hands over as it is; Postgres takes all of them
    for one."""
    column = lake_column(0, base_type, lake_type)
    width = np.uint64 if lake_type == "double" else np.uint32
    odd = pa.array(np.array([bits], dtype=width).view(np.float64 if lake_type == "double" else np.float32))
    assert sum_table_rows(pa.table([odd], schema=arrow_schema([column])), (column,)) == sum_hashes(
        np.array(hashed_by_postgres(conn, [column], [[float("nan")]]), dtype=np.int64)
    )


def test_a_dictionary_hashes_as_its_values_do() -> None:
    column = lake_column(0, "text", "string")
    plain = pa.array(["a", None, "b", "a", "long" * 100])
    assert hash_column(plain.dictionary_encode(), column, 5).tolist() == hash_column(plain, column, 5).tolist()


@pytest.mark.parametrize("lake_type", ["decimal(18, 4)", "decimal(5, 0)"])
@given(values=st.lists(st.integers(-99_999, 99_999) | st.none(), max_size=30), start=st.integers(0, 30))
def test_small_decimals_get_their_point_back(lake_type: str, values: list[int | None], start: int) -> None:
    column = lake_column(0, "numeric", lake_type)
    scale = arrow_type(lake_type).scale
    told = lake_array(pa.array(values, pa.int64()).slice(start), column)
    assert told.to_pylist() == [None if value is None else Decimal(value).scaleb(-scale) for value in values[start:]]


def test_columns_that_swapped_their_values_change_the_sum() -> None:
    columns = (lake_column(0, "int8", "long"), lake_column(1, "int8", "long"))
    right, turned = (
        pa.table([pa.array(a), pa.array(b)], schema=arrow_schema(columns))
        for a, b in (([1, 7], [2, 7]), ([2, 7], [1, 7]))
    )
    assert sum_table_rows(right, columns) != sum_table_rows(turned, columns)


def test_a_uuid_is_stored_natively_however_the_driver_hands_it_over() -> None:
    values = [uuid.UUID(int=7).bytes, None, uuid.UUID(int=2**128 - 1).bytes]
    opaque = pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "uuid", "PostgreSQL"), pa.array(values, pa.binary()))
    told = lake_array(opaque, lake_column(0, "uuid", "uuid"))
    assert told.type == pa.uuid()
    assert told.storage.to_pylist() == values
