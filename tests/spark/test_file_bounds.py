"""Bounds in manifests that hide no row: files with text that no statistics tell of and with NaN, rewritten by every
kernel."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from tests.spark.ground import Ground
from tests.spark.lake import Lake

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
KERNELS: dict[str, dict[str, Any]] = {
    "splice": {},
    "merge": {"splice_min_row_group_bytes": 1 << 30},
    "reencode": {},
    "sort": {"rewrite_strategy": "sort", "sort_order": "id"},
    "zorder": {"rewrite_strategy": "zorder", "zorder_columns": ("id", "x")},
}


def strange_rows() -> pa.Table:
    """500 names m, one of 6,000 bytes, the rest a; one NaN, and the lowest and the highest x."""
    names = ["m"] * 500 + [LONG] + ["a"] * (ROWS - 501)
    numbers = [math.nan, -1000.5, 1000.5] + [0.5] * (ROWS - 3)
    return pa.table([range(ROWS), names, numbers, ["f" * 500] * ROWS], schema=SCHEMA)


def plain_rows() -> pa.Table:
    return pa.table([range(ROWS, 2 * ROWS), ["x"] * ROWS, [2.5] * ROWS, ["f" * 500] * ROWS], schema=SCHEMA)


def count_by_duckdb(lake: Lake, condition: str) -> int:
    return len(lake.ground.lake_by_duckdb(lake.name, condition))


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


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.conforms("M-219")
def test_a_long_text_or_nan_in_one_input_hides_no_row_of_it(ground: Ground, kernel: str) -> None:
    lake = Lake.make(ground, "id bigint, name string, x double, filler string")
    lake.add_file(strange_rows(), compression="gzip" if kernel == "reencode" else "zstd")
    lake.add_file(plain_rows(), compression="zstd")
    told = lake.compact(**KERNELS[kernel])
    assert (told.status, told.counters.get("files_written")) == ("done", 1), told
    assert_every_row_is_found(lake)
    # Only NaN lies above the largest number: the footers of the inputs have bounds that leave it out, those of the
    # output must not.
    assert (count_by_spark(lake, "x > 1000.5"), count_by_duckdb(lake, "x > 1000.5")) == (1, 1)


@pytest.mark.parametrize("kernel", ["splice", "reencode"])
def test_an_equality_delete_reaches_rows_whose_values_no_statistics_tell_of(ground: Ground, kernel: str) -> None:
    lake = Lake.make(ground, "id bigint, name string, x double, filler string")
    lake.add_file(strange_rows(), compression="gzip" if kernel == "reencode" else "zstd")
    lake.add_file(plain_rows(), compression="zstd")
    assert lake.compact().status == "done"
    lake.delete_equal({"name": pa.string()}, [("m",), (LONG,)])
    assert count_by_spark(lake, "id >= 0") == 2 * ROWS - 501
    lake.append([(99_999, "m", 1.5, "after the delete")])
    assert lake.compact().status == "done"
    assert (count_by_spark(lake, "id >= 0"), count_by_spark(lake, "name = 'm'"), len(lake.seen().deletes)) == (
        2 * ROWS - 500,
        1,
        0,
    )


def test_the_greatest_binary_is_a_value_that_is_there(ground: Ground) -> None:
    lake = Lake.make(ground, "id bigint, raw binary")
    for first in (0, 10):
        lake.append(
            [(at, bytearray(b"raw and long beyond sixteen " + bytes([97 + at]))) for at in range(first, first + 10)]
        )
    assert lake.compact().status == "done"
    (found,) = lake.spark.sql(f"select min(raw), max(raw) from {lake.sql_name}").collect()
    assert [bytes(value)[-1:] for value in found] == [b"a", b"t"]
