"""Equality deletes by the million: within the memory that a task is given, in parts where they are more than it
holds."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.bins import Bin, iceberg_schema, lake_field, read_back

from thermocline.parquet.deletes.equality_deletes import passes_for, plan_keys
from thermocline.parquet.rewrite_task import BinResult, BinTask, SortField
from thermocline.parquet.values.lake_schema import read_lake_schema
from thermocline.spark.kernels.compact_bin import run_bin

_LIMIT_MIB = 512
_FILE_ROWS, _FILES, _WIDTH = 131_072, 8, 1000
pytestmark = pytest.mark.large
SCHEMA = pa.schema([lake_field("id", pa.int64(), 1), lake_field("body", pa.binary(), 2)])
JSON = iceberg_schema((1, "id", "long"), (2, "body", "binary"))


def run_alone(task: BinTask) -> tuple[BinResult, float]:
    """A bin rewritten by a process of its own, and the most memory that it had, in MiB."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run_here, (task,))


def _run_here(task: BinTask) -> tuple[BinResult, float]:
    result = run_bin(task, lambda _: None, lambda _read, _written: None)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return result, int(peak.split()[1]) / 1024


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bin]:
    """A gigabyte of rows, ids from nought on, and ten million keys in disorder: every other id, and many that no row
    has."""
    lake = Bin(tmp_path_factory.mktemp("wide"), schema=JSON)
    noise = pa.py_buffer(os.urandom(_FILE_ROWS * _WIDTH))
    offsets = pa.array(np.arange(0, (_FILE_ROWS + 1) * _WIDTH, _WIDTH, dtype=np.int32)).buffers()[1]
    body = pa.Array.from_buffers(pa.binary(), _FILE_ROWS, [None, offsets, noise])
    for number in range(_FILES):
        ids = pa.array(np.arange(number * _FILE_ROWS, (number + 1) * _FILE_ROWS))
        lake.add(
            pa.Table.from_arrays([ids, body], schema=SCHEMA),
            compression="none",
            use_dictionary=False,
            row_group_size=16_384,
        )
    assert sum(file.size_bytes for file in lake.inputs) > 1_000_000_000
    keys = (np.arange(10_000_000, dtype=np.int64) * 6_700_417 % 10_000_000) * 2
    lake.delete_equal(pa.table([pa.array(keys)], schema=pa.schema([SCHEMA.field(0)])), [1])
    yield lake
    shutil.rmtree(lake.directory)


def parts_of(task: BinTask) -> int:
    return passes_for(task, plan_keys(task, read_lake_schema(task.schema_json)))


@pytest.mark.conforms("M-084")
def test_ten_million_keys_against_a_gigabyte_stay_within_the_memory_of_a_task(wide: Bin) -> None:
    task = wide.task("reencode", compression="uncompressed")
    assert parts_of(task) == 2
    result, memory_mib = run_alone(task)
    assert (result.rows_read, result.rows_written) == (_FILES * _FILE_ROWS, _FILES * _FILE_ROWS // 2)
    assert memory_mib <= _LIMIT_MIB


@pytest.mark.conforms("M-084")
def test_keys_beyond_a_low_limit_are_taken_in_parts_and_delete_the_same_rows(wide: Bin) -> None:
    one = Bin(wide.directory, schema=JSON, inputs=wide.inputs[3:4], deletes=wide.deletes)
    low = one.task(
        "sort", memory_bytes=64 << 20, compression="uncompressed", sort=(SortField(field_id=1),), target_bytes=32 << 20
    )
    assert parts_of(low) >= 6
    result, memory_mib = run_alone(low)
    assert result.note.endswith("runs on disk")
    assert memory_mib <= _LIMIT_MIB * 3 / 4
    assert read_back(result).column("id").to_pylist() == [3 * _FILE_ROWS + at for at in range(1, _FILE_ROWS, 2)]
