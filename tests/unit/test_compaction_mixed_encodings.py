"""Files of writers that encode otherwise, merged: whatever is copied must be read by Arrow, by DuckDB and by our own
kernels.

A column chunk has one dictionary at most, and readers differ in which pages they take behind it. So pages of several
writers share a chunk only where one writer could have made it.
"""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, iceberg_schema, lake_field, local, read_back
from tests.unit.parquet_truth import check_parquet
from tests.unit.test_compaction_merge_types import by_duckdb, however_small

from thermocline.core.maintenance.files import DeleteSeen
from thermocline.lake.read.table_files import read_deleted_names
from thermocline.maintain.operations.replace_files import read_positions
from thermocline.parquet.deletes.position_deletes import KnownDeletes
from thermocline.parquet.rewrite_task import BinResult, SortField

SCHEMA = pa.schema(
    [
        lake_field("id", pa.int64(), 1),
        lake_field("name", pa.string(), 2),
        lake_field("x", pa.float64(), 3),
        lake_field("raw", pa.binary(), 4),
        lake_field("n", pa.int32(), 5),
        lake_field("ok", pa.bool_(), 6),
    ]
)
ICEBERG = iceberg_schema(
    (1, "id", "long"),
    (2, "name", "string"),
    (3, "x", "double"),
    (4, "raw", "binary"),
    (5, "n", "int"),
    (6, "ok", "boolean"),
)
DELTAS = {
    "id": "DELTA_BINARY_PACKED",
    "name": "DELTA_BYTE_ARRAY",
    "x": "BYTE_STREAM_SPLIT",
    "raw": "DELTA_LENGTH_BYTE_ARRAY",
    "n": "DELTA_BINARY_PACKED",
}
LENGTHS = {"name": "DELTA_LENGTH_BYTE_ARRAY", "raw": "DELTA_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED", "ok": "RLE"}
HOW: dict[str, dict[str, Any]] = {
    "dictionary": {"use_dictionary": True},
    "dictionary that overflows": {
        "use_dictionary": True,
        "dictionary_pagesize_limit": 16,
        "write_batch_size": 64,
        "data_page_size": 256,
    },
    "plain": {"use_dictionary": False},
    "delta": {"use_dictionary": False, "column_encoding": DELTAS},
    "delta lengths": {"use_dictionary": False, "column_encoding": LENGTHS},
}
WRITERS = {
    f"{name}, pages v{pages[0]}": {**how, "data_page_version": pages}
    for (name, how), pages in product(HOW.items(), ("1.0", "2.0"))
}
ROWS = 400


def rows(first: int, count: int = ROWS) -> pa.Table:
    ids = range(first, first + count)
    names = [None if i % 11 == 0 else f"a name that repeats {i % 7}" for i in ids]
    raw = [f"raw {i % 5}".encode() for i in ids]
    columns = [
        [i % 13 for i in ids],
        names,
        [None if i % 5 == 0 else i % 17 / 3 for i in ids],
        raw,
        [i % 3 for i in ids],
        [i % 4 == 0 for i in ids],
    ]
    return pa.table(columns, schema=SCHEMA)


def check_read_by_all(folder: Path, result: BinResult, expected: pa.Table) -> None:
    """The outputs by Arrow and DuckDB, and by each kernel of ours that may meet them in a later pass."""
    paths = [local(output.path) for output in result.outputs]
    for path in paths:
        check_parquet(path)
    assert read_back(result).equals(expected)
    folder.mkdir()
    pq.write_table(expected, folder / "expected.parquet")
    assert by_duckdb(paths) == by_duckdb([str(folder / "expected.parquet")])
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
        with however_small(1 << 20):
            lake = Bin(folder, schema=ICEBERG)
            lake.add(rows(0), **WRITERS[first])
            lake.add(rows(ROWS), **WRITERS[second])
            lake.add(rows(2 * ROWS), **WRITERS[first])
            result = lake.run(splice_min_row_group_bytes=1 << 40)
            assert result.kernel == "merge", result.note
            check_read_by_all(folder / "read", result, rows(0, 3 * ROWS))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_files_of_many_writers_are_read_by_all_after_they_were_merged(seed: int) -> None:
    chance, names = random.Random(seed), list(WRITERS)
    with TemporaryDirectory() as made, however_small(chance.choice((300, 1 << 20))):
        lake, before = Bin(Path(made), schema=ICEBERG), 0
        codec = chance.choice(("zstd", "snappy", "gzip", "none"))
        for _ in range(chance.randrange(2, 6)):
            count = chance.choice((1, 50, ROWS))
            lake.add(
                rows(before, count),
                compression=codec,
                row_group_size=chance.choice((60, 1000)),
                **WRITERS[chance.choice(names)],
            )
            before += count
        table_codec = "uncompressed" if codec == "none" else codec
        result = lake.run(splice_min_row_group_bytes=1 << 40, compression=table_codec)
        assert result.kernel == "merge", result.note
        check_read_by_all(Path(made) / "read", result, rows(0, before))


@pytest.mark.parametrize("encoding", ["dictionary", "PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_position_deletes_are_read_however_their_paths_are_encoded(tmp_path: Path, encoding: str) -> None:
    """By a fold, by a commit that moves them along, and by what plans with the names in them."""
    path = str(tmp_path / "deletes.parquet")
    places = pa.table({"file_path": ["/a", "/a", "/b"], "pos": pa.array([3, 5, 7], pa.int64())})
    how: dict[str, Any] = (
        {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": {"file_path": encoding}}
    )
    pq.write_table(places, path, **how)
    assert KnownDeletes().of("/a", [path]).tolist() == [3, 5]
    seen = DeleteSeen(path=path, kind="position", size_bytes=1, record_count=3, sequence_number=1)
    assert {name: found.tolist() for name, found in read_positions(seen).items()} == {"/a": [3, 5], "/b": [7]}
    assert read_deleted_names(path) == {"/a": 2, "/b": 1}
