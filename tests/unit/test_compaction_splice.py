"""Splicing: row groups byte for byte, everything that points into the file moved along."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, lake_field, local, read_back, read_by_duckdb

from thermocline.errors import LakeInputUnreadable, RewriteUnsupported
from thermocline.parquet.deletes.row_map import map_deleted_rows

SCHEMA = pa.schema([lake_field("id", pa.int64(), 1, False), lake_field("name", pa.string(), 2)])
WRITERS: list[dict[str, Any]] = [
    {"write_page_index": True, "row_group_size": 300, "data_page_size": 512, "write_batch_size": 16},
    {"use_dictionary": False, "data_page_version": "2.0"},
    {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 1000}, "name": True}, "row_group_size": 250},
    {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"}},
    {"compression": "none", "write_statistics": False},
]


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table([list(ids), [None if i % 11 == 0 else f"row {i}" for i in ids]], schema=SCHEMA)


@pytest.mark.parametrize(
    "how", WRITERS, ids=["page index", "plain, pages v2", "bloom filters", "delta", "uncompressed"]
)
def test_a_spliced_file_reads_as_its_inputs_one_after_the_other(tmp_path: Path, how: dict[str, Any]) -> None:
    lake = Bin(tmp_path)
    for number in range(5):
        lake.add(rows(number * 1000, 1000), **how)
    result = lake.run()
    assert (result.kernel, result.note, len(result.outputs)) == ("splice", "", 1)
    assert result.rows_written == 5000
    assert read_back(result).equals(rows(0, 5000))
    assert read_by_duckdb(result, "select count(*), sum(id), count(name) from t") == [
        (5000, sum(range(5000)), 5000 - 455)
    ]
    assert read_by_duckdb(result, "select name from t where id = 3123") == [("row 3123",)]
    assert lake.registered == [output.path for output in result.outputs]


def test_statistics_field_ids_page_indexes_and_split_offsets_move_along(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    for number in range(3):
        lake.add(rows(number * 1000, 1000), **WRITERS[0])
    result = lake.run()
    before = [pq.ParquetFile(local(file.path)).metadata for file in lake.inputs]
    after = pq.ParquetFile(local(result.outputs[0].path))
    groups = [(metadata.row_group(n), n) for metadata in before for n in range(metadata.num_row_groups)]
    starts = []
    for number, (group, _) in enumerate(groups):
        now = after.metadata.row_group(number)
        assert now.num_rows == group.num_rows
        for column in range(2):
            was, chunk = group.column(column), now.column(column)
            assert chunk.statistics == was.statistics
            assert (chunk.encodings, chunk.compression, chunk.total_compressed_size) == (
                was.encodings,
                was.compression,
                was.total_compressed_size,
            )
            assert chunk.has_offset_index
            assert chunk.has_column_index
        starts.append(now.column(0).dictionary_page_offset or now.column(0).data_page_offset)
    assert result.outputs[0].split_offsets == tuple(starts)
    assert [after.schema_arrow.field(n).metadata[b"PARQUET:field_id"] for n in range(2)] == [b"1", b"2"]


def test_metadata_that_all_files_agree_on_is_kept(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    for number in range(2):
        pairs = {"iceberg.schema": f'{{"schema-id":{number}}}', "same": "yes", "own": str(number)}
        lake.add(rows(number, 5).replace_schema_metadata(pairs), store_schema=True)
    kept = pq.read_metadata(local(lake.run().outputs[0].path)).metadata
    assert kept.pop(b"iceberg.schema") == b'{"schema-id":1}'
    assert kept.pop(b"same") == b"yes"
    assert b"own" not in kept


def test_a_bin_above_the_target_is_cut_between_files(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    noise = np.random.default_rng(5)
    for _ in range(6):
        lake.add(pa.table([noise.integers(0, 2**62, 2000), [None] * 2000], schema=SCHEMA))
    size = lake.inputs[0].size_bytes
    result = lake.run(target_bytes=2 * size)
    assert [output.rows for output in result.outputs] == [4000] * 3
    moved = map_deleted_rows([m for m in result.row_maps if m.input_path == lake.inputs[3].path], np.array([0, 1999]))
    assert [(found.output, found.rows.tolist()) for found in moved] == [(1, [2000, 3999])]


def test_each_chunk_of_bytes_is_told_to_the_pace(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    lake.add(rows(0, 50_000), use_dictionary=False, compression="none")
    lake.add(rows(0, 50_000), use_dictionary=False, compression="none")
    result = lake.run()
    assert sum(written for _, written in lake.paced) == result.outputs[0].size_bytes
    assert sum(read for read, _ in lake.paced) >= result.outputs[0].size_bytes * 0.95


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), cut=st.booleans())
@example(seed=834, cut=False)
def test_a_damaged_footer_gives_a_sentence_that_names_the_file(tmp_path: Path, seed: int, cut: bool) -> None:
    lake = Bin(tmp_path)
    path = Path(local(lake.add(rows(0, 40), write_page_index=True)))
    data, chance = bytearray(path.read_bytes()), random.Random(seed)
    if cut:
        data = data[: chance.randrange(len(data))]
    else:
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(max(0, len(data) - 400), len(data))] = chance.randrange(256)
    path.write_bytes(data)
    try:
        lake.run()
    except (LakeInputUnreadable, RewriteUnsupported) as problem:
        assert str(path) in problem.message or "part-0" in problem.message  # noqa: PT017
