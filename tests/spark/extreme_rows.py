"""Lake rows with extreme values, and checks that every engine finds each of them."""

from __future__ import annotations

import math

import pyarrow as pa
from pyiceberg.table import StaticTable
from tests.spark.lake_table import Lake

KINDS = {"id": pa.int64(), "name": pa.string(), "x": pa.float64(), "filler": pa.string()}
SCHEMA = pa.schema(
    [pa.field(name, kind, metadata={"PARQUET:field_id": str(at)}) for at, (name, kind) in enumerate(KINDS.items(), 1)]
)
LONG = "m" * 6_000
"""Longer than the 4,096 bytes up to which Arrow and parquet-java write statistics."""
ROWS = 3_000
CONDITIONS = {
    "name = 'm'": 500,
    "name = 'x'": ROWS,
    "name > 'mm' and name < 'n'": 1,
    "name >= 'a' and name < 'b'": ROWS - 501,
    "x = 1000.5": 1,
    "x < -999.0": 1,
    "x is not null and id >= 0": 2 * ROWS,
}
ABOVE_ALL = {"x > 1000.0": 2}
"""NaN lies above every number in SQL; PyIceberg takes it for no number at all."""


def strange_rows() -> pa.Table:
    """500 names m, one of 6,000 bytes, the rest a; one NaN, and the lowest and the highest x."""
    names = ["m"] * 500 + [LONG] + ["a"] * (ROWS - 501)
    numbers = [math.nan, -1000.5, 1000.5] + [0.5] * (ROWS - 3)
    return pa.table([range(ROWS), names, numbers, ["f" * 500] * ROWS], schema=SCHEMA)


def plain_rows() -> pa.Table:
    return pa.table([range(ROWS, 2 * ROWS), ["x"] * ROWS, [2.5] * ROWS, ["f" * 500] * ROWS], schema=SCHEMA)


def count_by_duckdb(lake: Lake, condition: str) -> int:
    return len(lake.lake_database.lake_by_duckdb(lake.name, condition))


def count_by_pyiceberg(lake: Lake, condition: str) -> int:
    table = StaticTable.from_metadata(lake.head().metadata_location.replace("file:/", "file:///", 1))
    return len(table.scan(row_filter=condition).to_arrow())


def count_by_spark(lake: Lake, condition: str) -> int:
    return int(lake.spark.sql(f"select count(*) from {lake.sql_name} where {condition}").collect()[0][0])


def assert_every_row_is_found(lake: Lake) -> None:
    for condition, rows in CONDITIONS.items():
        for count in (count_by_spark, count_by_duckdb, count_by_pyiceberg):
            assert (condition, count.__name__, count(lake, condition)) == (condition, count.__name__, rows)
    for condition, rows in ABOVE_ALL.items():
        for count in (count_by_spark, count_by_duckdb):
            assert (condition, count.__name__, count(lake, condition)) == (condition, count.__name__, rows)
