"""Bounds in manifests that hide no row: files with text that no statistics tell of and with NaN, rewritten by every
kernel."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.spark.extreme_rows import (
    LONG,
    ROWS,
    assert_every_row_is_found,
    count_by_duckdb,
    count_by_spark,
    plain_rows,
    strange_rows,
)
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

KERNELS: dict[str, dict[str, Any]] = {
    "splice": {},
    "merge": {"splice_min_row_group_bytes": 1 << 30},
    "reencode": {},
    "sort": {"rewrite_strategy": "sort", "sort_order": "id"},
    "zorder": {"rewrite_strategy": "zorder", "zorder_columns": ("id", "x")},
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.conforms("M-219")
def test_a_long_text_or_nan_in_one_input_hides_no_row_of_it(lake_database: LakeDatabase, kernel: str) -> None:
    lake = Lake.make(lake_database, "id bigint, name string, x double, filler string")
    lake.add_file(strange_rows(), compression="gzip" if kernel == "reencode" else "zstd")
    lake.add_file(plain_rows(), compression="zstd")
    told = lake.compact(**KERNELS[kernel])
    assert (told.status, told.counters.get("files_written")) == ("done", 1), told
    assert_every_row_is_found(lake)
    # Only NaN lies above the largest number: the footers of the inputs have bounds that leave it out, those of the
    # output must not.
    assert (count_by_spark(lake, "x > 1000.5"), count_by_duckdb(lake, "x > 1000.5")) == (1, 1)


@pytest.mark.parametrize("kernel", ["splice", "reencode"])
def test_an_equality_delete_reaches_rows_whose_values_no_statistics_tell_of(
    lake_database: LakeDatabase, kernel: str
) -> None:
    lake = Lake.make(lake_database, "id bigint, name string, x double, filler string")
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


def test_the_greatest_binary_is_a_value_that_is_there(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, raw binary")
    for first in (0, 10):
        lake.append(
            [(at, bytearray(b"raw and long beyond sixteen " + bytes([97 + at]))) for at in range(first, first + 10)]
        )
    assert lake.compact().status == "done"
    (found,) = lake.spark.sql(f"select min(raw), max(raw) from {lake.sql_name}").collect()
    assert [bytes(value)[-1:] for value in found] == [b"a", b"t"]
