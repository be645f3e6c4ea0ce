"""Merging: pages of small row groups copied into large ones; nothing the new footer says may be untrue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.bins import Bin, lake_field, local, read_back, read_by_duckdb
from tests.unit.parquet_truth import check_parquet

from thermocline.spark.kernels.compaction.task import BinResult

ROWS = 9_000
SCHEMA = pa.schema([lake_field("id", pa.int64(), 1, False), lake_field("name", pa.string(), 2)])
WRITERS: dict[str, dict[str, Any]] = {
    "page index": {"use_dictionary": False, "write_page_index": True},
    "pages v2": {"use_dictionary": False, "data_page_version": "2.0", "write_page_index": True},
    "delta": {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"}},
    "no statistics": {"use_dictionary": False, "write_statistics": False},
    "checksums": {"use_dictionary": False, "write_page_checksum": True, "write_page_index": True, "data_page_size": 20_000},
}


def rows(first: int, count: int = ROWS) -> pa.Table:
    ids = range(first, first + count)
    return pa.table([list(ids), [None if i % 11 == 0 else f"row {i}" for i in ids]], schema=SCHEMA)


def merged(lake: Bin, **changes: Any) -> BinResult:
    """The bin, its row groups too small to be spliced."""
    return lake.run(splice_min_row_group_bytes=1 << 40, **changes)


@pytest.mark.parametrize("how", WRITERS.values(), ids=WRITERS)
def test_pages_of_small_row_groups_make_one_large_row_group(tmp_path: Path, how: dict[str, Any]) -> None:
    lake = Bin(tmp_path)
    for number in range(4):
        lake.add(rows(number * ROWS), **how)
    result = merged(lake)
    assert (result.kernel, len(result.outputs), result.rows_written) == ("merge", 1, 4 * ROWS)
    assert "encoded again" not in result.note
    path = local(result.outputs[0].path)
    assert check_parquet(path).groups == 1
    before = [pq.ParquetFile(local(file.path)).metadata.row_group(0) for file in lake.inputs]
    after = pq.ParquetFile(path).metadata.row_group(0)
    for column in range(2):
        assert after.column(column).total_compressed_size == sum(group.column(column).total_compressed_size for group in before)
        assert after.column(column).encodings == before[0].column(column).encodings
    assert read_back(result).equals(rows(0, 4 * ROWS))
    assert read_by_duckdb(result, "select count(*), sum(id), count(name) from t") == [
        (4 * ROWS, sum(range(4 * ROWS)), sum(i % 11 > 0 for i in range(4 * ROWS)))
    ]
    assert read_by_duckdb(result, f"select name from t where id = {3 * ROWS + 7}") == [(f"row {3 * ROWS + 7}",)]
    assert lake.registered == [output.path for output in result.outputs]
