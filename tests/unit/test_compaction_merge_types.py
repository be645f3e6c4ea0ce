"""Merging held against every type, writer and shape of dictionary: the same rows, and statistics that are true of
them."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, lake_field, local, read_back
from tests.unit.check_parquet import check_parquet
from tests.unit.merge_samples import KINDS, make_column, merge_small_pages, sum_by_duckdb

from thermocline.parquet.rewrite_task import InputFile


def a_writer(chance: random.Random) -> dict[str, Any]:
    return {
        "use_dictionary": chance.random() < 0.5,
        "data_page_version": chance.choice(("1.0", "2.0")),
        "write_page_index": chance.random() < 0.8,
        "write_statistics": chance.random() < 0.9,
        "row_group_size": chance.choice((7, 30, 1000)),
        "data_page_size": chance.choice((1, 100, 1 << 20)),
        "write_batch_size": chance.choice((1, 10, 1024)),
        "dictionary_pagesize_limit": chance.choice((20, 1 << 20)),
        "store_decimal_as_integer": True,
    }


def is_readable(file: InputFile) -> bool:
    """Arrow writes some lists over pages of a single value so that it cannot read them."""
    try:
        return bool(pq.read_table(local(file.path)).num_rows == file.record_count)
    except pa.ArrowInvalid:
        return False


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_of_any_type_by_any_writer_are_the_same_after_a_merge_and_nothing_said_of_them_is_untrue(
    seed: int,
) -> None:
    chance = random.Random(seed)
    kinds = chance.sample(KINDS, 3)
    is_copy = chance.random() < 0.1
    schema = pa.schema([lake_field(f"c{n}", kind, n + 1) for n, (kind, _) in enumerate(kinds)])
    same = a_writer(chance) if chance.random() < 0.5 else None
    tables: list[pa.Table] = []
    with TemporaryDirectory() as folder, merge_small_pages(chance.choice((20, 60, 1000))):
        lake = Bin(Path(folder))
        for _ in range(chance.randrange(1, 5)):
            rows = chance.randrange(60)
            table = pa.table([make_column(kind, make, rows, chance) for kind, make in kinds], schema=schema)
            tables.append(tables[0] if tables and is_copy else table)
            lake.add(tables[-1], **(same or a_writer(chance)))
        if not any(table.num_rows for table in tables) or not all(map(is_readable, lake.inputs)):
            return
        result = lake.run(splice_min_row_group_bytes=1 << 40, target_bytes=chance.choice((1, 1 << 30)))
        assert result.kernel == "merge", result.note
        for output in result.outputs:
            check_parquet(local(output.path))
        assert list(map(repr, read_back(result).to_pylist())) == [
            repr(row) for table in tables for row in table.to_pylist()
        ]
        inputs = [local(file.path) for file in lake.inputs]
        if pa.float16() not in schema.types:
            assert sum_by_duckdb([local(output.path) for output in result.outputs]) == sum_by_duckdb(inputs)
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        again = pa.concat_tables(
            [pq.read_table(local(output.path), read_dictionary=texts) for output in result.outputs]
        )
        assert again.num_rows == result.rows_written == sum(table.num_rows for table in tables)
