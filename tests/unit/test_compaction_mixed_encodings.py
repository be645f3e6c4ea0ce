"""Files of writers that encode otherwise, merged: whatever is copied must be read by Arrow, by DuckDB and by our own
kernels.

A column chunk has one dictionary at most, and readers differ in which pages they take behind it. So pages of several
writers share a chunk only where one writer could have made it.
"""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, local, read_back
from tests.unit.check_parquet import check_parquet
from tests.unit.merge_samples import merge_small_pages, sum_by_duckdb
from tests.unit.mixed_encodings import ICEBERG, ROWS, WRITERS, make_rows

from thermocline.core.lake_file import LiveDeleteFile
from thermocline.lake.read.table_files import read_deleted_names
from thermocline.maintain.operations.replace_files import read_positions
from thermocline.parquet.deletes.position_deletes import PositionDeleteCache
from thermocline.parquet.rewrite_task import BinResult, SortField


def check_read_by_all(folder: Path, result: BinResult, expected: pa.Table) -> None:
    """The outputs by Arrow and DuckDB, and by each kernel of ours that may meet them in a later pass."""
    paths = [local(output.path) for output in result.outputs]
    for path in paths:
        check_parquet(path)
    assert read_back(result).equals(expected)
    folder.mkdir()
    pq.write_table(expected, folder / "expected.parquet")
    assert sum_by_duckdb(paths) == sum_by_duckdb([str(folder / "expected.parquet")])
    by_id = [("id", "ascending")]
    for kernel, changes in (
        ("reencode", {}),
        ("sort", {"sort": (SortField(field_id=1),)}),
        ("splice", {}),
        ("splice", {"splice_min_row_group_bytes": 1 << 40}),
    ):
        again = Bin(folder, schema=ICEBERG)
        for output in result.outputs:
            again.add_file(Path(local(output.path)), output.rows)
        folder = folder / "again"
        folder.mkdir()
        again.directory = folder
        found = read_back(again.run(kernel, **changes))
        assert found.equals(expected.sort_by(by_id) if kernel == "sort" else expected), kernel


@pytest.mark.parametrize("first", WRITERS)
def test_files_of_two_writers_are_read_by_all_after_they_were_merged(tmp_path: Path, first: str) -> None:
    for number, second in enumerate(WRITERS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with merge_small_pages(1 << 20):
            lake = Bin(folder, schema=ICEBERG)
            lake.add(make_rows(0), **WRITERS[first])
            lake.add(make_rows(ROWS), **WRITERS[second])
            lake.add(make_rows(2 * ROWS), **WRITERS[first])
            result = lake.run(splice_min_row_group_bytes=1 << 40)
            assert result.kernel == "merge", result.note
            check_read_by_all(folder / "read", result, make_rows(0, 3 * ROWS))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_files_of_many_writers_are_read_by_all_after_they_were_merged(seed: int) -> None:
    chance, names = random.Random(seed), list(WRITERS)
    with TemporaryDirectory() as made, merge_small_pages(chance.choice((300, 1 << 20))):
        lake, before = Bin(Path(made), schema=ICEBERG), 0
        codec = chance.choice(("zstd", "snappy", "gzip", "none"))
        for _ in range(chance.randrange(2, 6)):
            count = chance.choice((1, 50, ROWS))
            lake.add(
                make_rows(before, count),
                compression=codec,
                row_group_size=chance.choice((60, 1000)),
                **WRITERS[chance.choice(names)],
            )
            before += count
        table_codec = "uncompressed" if codec == "none" else codec
        result = lake.run(splice_min_row_group_bytes=1 << 40, compression=table_codec)
        assert result.kernel == "merge", result.note
        check_read_by_all(Path(made) / "read", result, make_rows(0, before))


@pytest.mark.parametrize("encoding", ["dictionary", "PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_position_deletes_are_read_however_their_paths_are_encoded(tmp_path: Path, encoding: str) -> None:
    """By a fold, by a commit that moves them along, and by what plans with the names in them."""
    path = str(tmp_path / "deletes.parquet")
    places = pa.table({"file_path": ["/a", "/a", "/b"], "pos": pa.array([3, 5, 7], pa.int64())})
    how: dict[str, Any] = (
        {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": {"file_path": encoding}}
    )
    pq.write_table(places, path, **how)
    assert PositionDeleteCache().of("/a", [path]).tolist() == [3, 5]
    seen = LiveDeleteFile(path=path, kind="position", size_bytes=1, record_count=3, sequence_number=1)
    assert {name: found.tolist() for name, found in read_positions(seen).items()} == {"/a": [3, 5], "/b": [7]}
    assert read_deleted_names(path) == {"/a": 2, "/b": 1}
