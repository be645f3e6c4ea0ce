"""Merging: pages of small row groups copied into large ones; nothing the new footer says may be untrue."""

from __future__ import annotations

import random
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.bins import Bin, lake_field, local, read_back, read_by_duckdb
from tests.unit.check_parquet import check_parquet

from thermocline.errors import LakeInputUnreadable, RewriteUnsupported
from thermocline.parquet import byte_files as files
from thermocline.parquet.copy import merge_plan
from thermocline.parquet.deletes.row_map import map_deleted_rows
from thermocline.parquet.footer.chunk_statistics import MinMax, Statistics, merge_statistics
from thermocline.parquet.footer.leaf_columns import Leaf, PhysicalType, ValueOrder
from thermocline.parquet.rewrite_task import BinResult

ROWS = 9_000
SCHEMA = pa.schema([lake_field("id", pa.int64(), 1, False), lake_field("name", pa.string(), 2)])
WRITERS: dict[str, dict[str, Any]] = {
    "page index": {"use_dictionary": False, "write_page_index": True},
    "pages v2": {"use_dictionary": False, "data_page_version": "2.0", "write_page_index": True},
    "delta": {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"}},
    "no statistics": {"use_dictionary": False, "write_statistics": False},
    "checksums": {"use_dictionary": False, "write_page_checksum": True, "write_page_index": True},
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
        assert after.column(column).total_compressed_size == sum(
            group.column(column).total_compressed_size for group in before
        )
        assert after.column(column).encodings == before[0].column(column).encodings
    assert read_back(result).equals(rows(0, 4 * ROWS))
    assert read_by_duckdb(result, "select count(*), sum(id), count(name) from t") == [
        (4 * ROWS, sum(range(4 * ROWS)), sum(i % 11 > 0 for i in range(4 * ROWS)))
    ]
    assert read_by_duckdb(result, f"select name from t where id = {3 * ROWS + 7}") == [(f"row {3 * ROWS + 7}",)]
    assert lake.registered == [output.path for output in result.outputs]


def with_names(first: int, names: list[str]) -> pa.Table:
    return pa.table([list(range(first, first + ROWS)), [names[i % len(names)] for i in range(ROWS)]], schema=SCHEMA)


def add_with_dictionaries(lake: Bin, *names: list[str]) -> list[str]:
    """A file for each list of names, by dictionary; without one where names are many."""
    told = []
    for number, some in enumerate(names):
        lake.add(
            with_names(number * ROWS, some),
            use_dictionary=["name"] if len(some) < 100 else False,
            write_page_index=True,
        )
        told += [some[i % len(some)] for i in range(ROWS)]
    return told


MANY = [f"{n} of many names" for n in range(1000)]


@pytest.mark.parametrize(
    ("names", "again"),
    [
        ([["a", "b"], ["a", "b"], ["a", "b"]], False),
        ([["a", "b"], ["b", "a"]], True),
        ([["a", "b"], ["a", "b", "c"]], True),
        ([["a", "b"], ["a", "b"], MANY], False),
        ([["a", "b"], MANY, ["a", "b"]], True),
        ([MANY, ["a", "b"], MANY], True),
        ([["a"], MANY, ["b"]], True),
    ],
    ids=[
        "the same",
        "another order",
        "one more",
        "the same, then none",
        "none between",
        "none first",
        "others and none",
    ],
)
def test_pages_by_dictionary_are_copied_only_where_they_share_it(
    tmp_path: Path, names: list[list[str]], again: bool
) -> None:
    lake = Bin(tmp_path)
    told = add_with_dictionaries(lake, *names)
    result = merged(lake)
    assert result.kernel == "merge"
    assert result.note.endswith("; encoded again: name") == again
    path = local(result.outputs[0].path)
    assert check_parquet(path).groups == 1
    assert pq.read_metadata(path).row_group(0).column(1).has_dictionary_page
    assert read_back(result).column("name").to_pylist() == told
    assert pq.read_table(path, read_dictionary=["name"]).column("name").to_pylist() == told
    assert read_by_duckdb(result, "select name from t order by id") == [(name,) for name in told]
    assert read_by_duckdb(result, "select count(*) from t where name = 'b'") == [(told.count("b"),)]


def test_a_bin_above_the_target_is_cut_between_files_and_every_row_is_known_by_its_new_place(tmp_path: Path) -> None:
    lake, noise = Bin(tmp_path), np.random.default_rng(5)
    for _ in range(6):
        lake.add(pa.table([noise.integers(0, 2**62, ROWS), [None] * ROWS], schema=SCHEMA), use_dictionary=False)
    result = merged(lake, target_bytes=2 * lake.inputs[0].size_bytes)
    assert (result.kernel, [output.rows for output in result.outputs]) == ("merge", [2 * ROWS] * 3)
    assert [len(output.split_offsets) for output in result.outputs] == [1, 1, 1]
    moved = map_deleted_rows(
        [m for m in result.row_maps if m.input_path == lake.inputs[3].path], np.array([0, ROWS - 1])
    )
    assert [(found.output, found.rows.tolist()) for found in moved] == [(1, [ROWS, 2 * ROWS - 1])]
    inputs = pa.concat_tables([pq.read_table(local(file.path)) for file in lake.inputs])
    assert read_back(result).equals(inputs)


def test_row_groups_are_even_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_plan, "GROUP_ROWS", 4 * ROWS)
    lake = Bin(tmp_path)
    for number in range(10):
        lake.add(rows(number * ROWS), use_dictionary=False, write_page_index=True)
    result = merged(lake)
    metadata = pq.read_metadata(local(result.outputs[0].path))
    assert [metadata.row_group(n).num_rows // ROWS for n in range(metadata.num_row_groups)] == [3, 4, 3]
    check_parquet(local(result.outputs[0].path))
    assert read_back(result).equals(rows(0, 10 * ROWS))


def test_what_cannot_be_merged_is_re_encoded_and_says_why(tmp_path: Path) -> None:
    reasons: dict[str, dict[str, Any]] = {
        "the table's codec is another than the files'": {"compression": "snappy"},
        "bloom filters, which cannot be merged": {"bloom_filter_options": {"id": {"ndv": 10_000}}},
        "small pages, or dictionaries in most columns": {"data_page_size": 1000, "write_batch_size": 100},
    }
    for number, (reason, how) in enumerate(reasons.items()):
        (folder := tmp_path / str(number)).mkdir()
        lake = Bin(folder)
        for place in range(2):
            lake.add(rows(place * ROWS), **{"use_dictionary": False, **how})
        result = merged(lake)
        assert (result.kernel, result.note.partition("; not merged: ")[2]) == ("reencode", reason)
        assert read_back(result).to_pylist() == rows(0, 2 * ROWS).to_pylist()


def test_a_bin_of_very_many_chunks_is_re_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Bin(tmp_path)
    for place in range(2):
        lake.add(rows(place * ROWS), use_dictionary=False)
    monkeypatch.setattr(merge_plan, "MOST_CHUNKS", 4)
    assert merged(lake).kernel == "merge"
    monkeypatch.setattr(merge_plan, "MOST_CHUNKS", 3)
    assert merged(lake).note.endswith("not merged: too many column chunks to plan with")


def test_pages_are_kept_from_a_size_or_a_number_of_values_on(tmp_path: Path) -> None:
    flags = pa.schema([lake_field("id", pa.int64(), 1, False), lake_field("flag", pa.bool_(), 2)])
    for values, again in ((merge_plan.MIN_PAGE_VALUES, False), (merge_plan.MIN_PAGE_VALUES - 1, True)):
        (folder := tmp_path / str(values)).mkdir()
        lake = Bin(folder)
        for _ in range(3):
            table = pa.table([list(range(values)), [n % 3 > 0 for n in range(values)]], schema=flags)
            lake.add(table, use_dictionary=False, write_page_index=True)
        result = merged(lake)
        assert (result.kernel, "encoded again: flag" in result.note) == ("merge", again), (
            "ids fill a page, truth values do not"
        )
        assert check_parquet(local(result.outputs[0].path)).pages == (5 if again else 6)


def test_files_of_a_store_are_merged_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "without_file_scheme", lambda _: "")  # so that nothing is read by descriptor
    lake = Bin(tmp_path)
    told = add_with_dictionaries(lake, ["a", "b"], ["b", "a"], MANY)
    result = merged(lake)
    assert result.kernel == "merge"
    check_parquet(local(result.outputs[0].path))
    assert read_back(result).column("name").to_pylist() == told


def test_each_piece_of_a_merge_is_told_to_the_pace(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    add_with_dictionaries(lake, ["a", "b"], ["b", "a"])
    result = merged(lake)
    assert sum(written for _, written in lake.paced) == result.outputs[0].size_bytes
    assert sum(read for read, _ in lake.paced) >= sum(file.size_bytes for file in lake.inputs) * 0.95


def test_files_whose_writer_does_not_count_its_pages_are_re_encoded(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    for number in range(3):
        path = tmp_path / f"duck-{number}.parquet"
        with closing(duckdb.connect()) as conn:
            conn.execute(
                f"copy (select i as id, 'row ' || i as name from range({number * ROWS}, "
                f"{number * ROWS + ROWS}) t(i)) to '{path}'"
                " (format parquet, codec zstd, field_ids {id: 1, name: 2})"
            )
        lake.add_file(path, ROWS)
    result = merged(lake)
    assert result.kernel == "reencode"
    assert read_back(result).column("name").to_pylist() == [f"row {n}" for n in range(3 * ROWS)]


def test_a_file_that_says_something_damaged_is_re_encoded_or_refused_by_name(tmp_path: Path) -> None:
    chance, kernels = random.Random(8), set()
    for turn in range(60):
        (folder := tmp_path / str(turn)).mkdir()
        lake = Bin(folder)
        for number in range(2):
            lake.add(rows(number * ROWS), use_dictionary=False, write_page_index=True)
        path = Path(local(lake.inputs[1].path))
        data, last = bytearray(path.read_bytes()), pq.read_metadata(path).row_group(0).column(1)
        place = chance.randrange(last.data_page_offset + last.total_compressed_size, len(data) - 8)
        data[place] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            result = merged(lake)
        except (LakeInputUnreadable, RewriteUnsupported):
            continue
        kernels.add(result.kernel)
        assert read_back(result).column("id").to_pylist()[:ROWS] == list(range(ROWS))
    assert kernels == {"merge", "reencode"}


DOUBLE = Leaf(kind=PhysicalType.DOUBLE, length=0, definitions=1, repetitions=0, order=ValueOrder.FLOATING)
UUID = Leaf(kind=PhysicalType.FIXED_LEN_BYTE_ARRAY, length=16, definitions=1, repetitions=0, order=ValueOrder.UUID)
LONG = Leaf(kind=PhysicalType.INT64, length=0, definitions=1, repetitions=0, order=ValueOrder.SIGNED)
TEXT = Leaf(kind=PhysicalType.BYTE_ARRAY, length=0, definitions=1, repetitions=0, order=ValueOrder.BYTES)


def doubles(low: float, high: float) -> Statistics:
    return Statistics(nulls=1, ends=MinMax(low=struct.pack("<d", low), high=struct.pack("<d", high)))


@pytest.mark.parametrize("leaf", [DOUBLE, UUID], ids=["double", "uuid"])
def test_bounds_of_floats_and_uuids_are_left_out_and_their_nulls_are_counted(leaf: Leaf) -> None:
    """Readers disagree where NaN lies and how UUIDs are ordered, so some would skip rows by any bounds."""
    assert merge_statistics(leaf, [(5, doubles(0.0, 1.0)), (5, doubles(2.0, 3.0))]) == Statistics(nulls=2)
    assert merge_statistics(leaf, [(5, doubles(0.0, 1.0))]) == Statistics(nulls=1), "a chunk that is copied alone"
    assert merge_statistics(leaf, [(5, None), (5, doubles(1.0, 2.0))]) == Statistics()
    assert merge_statistics(leaf, [(5, None)]) is None


def test_chunks_of_null_need_no_bounds_and_a_chunk_that_says_nothing_leaves_none() -> None:
    def whole(low: int, high: int) -> Statistics:
        return Statistics(nulls=1, ends=MinMax(low=struct.pack("<q", low), high=struct.pack("<q", high)))

    assert merge_statistics(LONG, [(5, whole(-3, 2)), (5, whole(-1, 7))]) == Statistics(nulls=2, ends=whole(-3, 7).ends)
    assert merge_statistics(LONG, [(5, Statistics(nulls=5)), (5, whole(1, 2))]) == Statistics(
        nulls=6, ends=whole(1, 2).ends
    )
    assert merge_statistics(LONG, [(5, whole(1, 2)), (5, Statistics(nulls=0))]) == Statistics(nulls=1), (
        "a chunk that may hold anything"
    )
    assert merge_statistics(LONG, [(5, None), (5, whole(1, 2))]) == Statistics()


def test_bounds_that_were_cut_short_are_not_called_exact() -> None:
    cut = Statistics(nulls=0, ends=MinMax(low=b"ab", high=b"ac", low_exact=False, high_exact=False))
    exact = Statistics(nulls=0, ends=MinMax(low=b"abc", high=b"\xff", low_exact=True, high_exact=True))
    assert merge_statistics(TEXT, [(5, cut), (5, exact)]) == Statistics(
        nulls=0, ends=MinMax(low=b"ab", high=b"\xff", low_exact=False, high_exact=True)
    )
