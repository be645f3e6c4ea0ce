"""The kernels of compaction alone: one bin, one process, no planning and no commit; compressed input per second, and
memory.

`make bench NAME=compaction` measures whole passes beside Spark's own; this one tells where their time goes. Each kernel
runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import Figure, reported, within
from thermocline.parquet.rewrite_task import BinTask, DeleteSource, InputFile, SortField
from thermocline.spark.kernels.compact_bin import run_bin

ROWS = int(os.environ.get("BENCH_KERNEL_ROWS", "8000000"))
FILES, TINY_FILES, RUNS = 200, 2000, 3
_MEMORY_LIMIT_MIB = 512
_TYPES: tuple[tuple[str, str, pa.DataType], ...] = (
    ("id", "long", pa.int64()),
    ("ts", "timestamptz", pa.timestamp("us", "UTC")),
    ("kind", "string", pa.string()),
    ("amount", "decimal(12,2)", pa.decimal128(12, 2)),
    ("score", "double", pa.float64()),
    ("note", "string", pa.string()),
    ("flag", "boolean", pa.bool_()),
)
_SCHEMA = pa.schema(
    [pa.field(name, kind, metadata={"PARQUET:field_id": str(n + 1)}) for n, (name, _, kind) in enumerate(_TYPES)]
)
_FIELDS = [{"id": n + 1, "name": name, "required": False, "type": kind} for n, (name, kind, _) in enumerate(_TYPES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    seconds: float
    memory_mib: float
    rows: int


def run() -> Sequence[Figure]:
    """All kernels over the same rows."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="thermocline-bench-") as folder:
        place = Path(folder)
        bins = {
            "200 files": _write_bin(place / "files", FILES),
            "2,000 tiny files": _write_bin(place / "tiny", TINY_FILES),
        }
        bins["as Spark writes them"] = _write_bin(
            place / "plain", FILES, use_dictionary=["kind"], write_page_index=True
        )
        for name, task in _tasks(place, bins).items():
            size = sum(file.size_bytes for file in task.inputs) / 1e6
            runs = [_measured(task) for _ in range(RUNS)]
            found.append(reported(name, statistics.median(size / one.seconds for one in runs), "MB/s"))
            found.append(within(f"{name}: memory", max(one.memory_mib for one in runs), _MEMORY_LIMIT_MIB, "MiB"))
            print(
                f"bench: {name}: {found[-2].value:g} MB/s, {found[-1].value:g} MiB, {runs[0].rows} rows",
                file=sys.stderr,
            )
    return found


def _tasks(place: Path, bins: dict[str, BinTask]) -> dict[str, BinTask]:
    files, tiny = bins["200 files"], bins["2,000 tiny files"]
    again = replace(files, kernel="reencode")
    clustered = replace(files, sort=(SortField(field_id=3), SortField(field_id=5)))
    return {
        "splice, 200 files": files,
        "splice, 2,000 tiny files": tiny,
        "merge, 200 files as Spark writes them": replace(
            bins["as Spark writes them"], splice_min_row_group_bytes=1 << 40
        ),
        "re-encode, 200 files as Spark writes them": replace(bins["as Spark writes them"], kernel="reencode"),
        "re-encode, 200 files": again,
        "re-encode, 2,000 tiny files": replace(tiny, kernel="reencode"),
        "re-encode, 20 % position deletes": _with_delete(again, _position_deletes(place, files)),
        "re-encode, equality deletes of every eighth key": _with_delete(again, _equality_deletes(place)),
        "sort by two columns": replace(clustered, kernel="sort"),
        "z-order by two columns": replace(clustered, kernel="zorder"),
        "Hilbert by two columns": replace(clustered, kernel="hilbert"),
    }


def _write_bin(folder: Path, files: int, **how: Any) -> BinTask:
    """So many files; `how` goes to Arrow's writer, which by itself makes dictionaries where Spark's leaves them out."""
    folder.mkdir()
    rows, chance = max(1, ROWS // files), np.random.default_rng(7)
    inputs = []
    for number in range(files):
        path = folder / f"{number}.parquet"
        # Kinds begin with another one in each file, so that no two neighbours share a dictionary.
        table = _rows(number * rows + number % 4, rows, chance)
        pq.write_table(table, path, compression="zstd", store_schema=False, store_decimal_as_integer=True, **how)
        inputs.append(
            InputFile(path=f"file://{path}", size_bytes=path.stat().st_size, record_count=rows, sequence_number=1)
        )
    return BinTask(
        number=0,
        kernel="splice",
        inputs=tuple(inputs),
        deletes=(),
        schema_json=json.dumps({"type": "struct", "schema-id": 0, "fields": _FIELDS}),
        directory=f"file://{folder}/out",
        name_prefix="out",
        target_bytes=1 << 30,
        scratch=str(folder),
    )


def _rows(first: int, count: int, chance: np.random.Generator) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table(
        [
            pa.array(ids),
            pa.array(ids * 1_000_000 + chance.integers(0, 1_000_000, count)).cast(pa.timestamp("us", "UTC")),
            pa.array(["click", "view", "buy", "refund"]).take(pa.array(ids % 4)),
            pa.array(chance.integers(0, 10**6, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            pa.array(chance.normal(size=count)),
            pa.array([f"note number {n} for row {n % 97}" for n in ids]),
            pa.array(chance.integers(0, 2, count).astype(bool)),
        ],
        schema=_SCHEMA,
    )


def _position_deletes(place: Path, task: BinTask) -> DeleteSource:
    rows = task.inputs[0].record_count
    paths = sorted(file.path for file in task.inputs)
    gone = np.arange(0, rows, 5)
    columns = [
        pa.array(paths).take(pa.array(np.repeat(np.arange(len(paths)), len(gone)))),
        pa.array(np.tile(gone, len(paths))),
    ]
    ids = (("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545"))
    schema = pa.schema([pa.field(name, kind, metadata={"PARQUET:field_id": number}) for name, kind, number in ids])
    return _delete_file(place / "positions.parquet", pa.table(columns, schema=schema), "position")


def _equality_deletes(place: Path) -> DeleteSource:
    keys = np.random.default_rng(8).permutation(np.arange(0, ROWS, 8))
    return _delete_file(
        place / "keys.parquet", pa.table([pa.array(keys)], schema=pa.schema([_SCHEMA.field(0)])), "equality", (1,)
    )


def _delete_file(path: Path, table: pa.Table, kind: Any, ids: tuple[int, ...] = ()) -> DeleteSource:
    pq.write_table(table, path, compression="zstd", store_schema=False)
    return DeleteSource(
        path=f"file://{path}", kind=kind, size_bytes=path.stat().st_size, sequence_number=2, equality_ids=ids
    )


def _with_delete(task: BinTask, source: DeleteSource) -> BinTask:
    return replace(task, deletes=(source,), inputs=tuple(replace(file, deletes=(0,)) for file in task.inputs))


def _measured(task: BinTask) -> Measured:
    """One run in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run_here, (task,))


def _run_here(task: BinTask) -> Measured:
    started = time.perf_counter()
    result = run_bin(task, lambda _: None, lambda _, __: None)
    seconds = time.perf_counter() - started
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return Measured(seconds=seconds, memory_mib=int(peak.split()[1]) / 1024, rows=result.rows_written)
