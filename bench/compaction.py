"""Compaction, whole passes: look, plan, rewrite in Spark tasks, commit by compare-and-swap, journal.

The yardstick is Iceberg's own `rewrite_data_files` on the same table, in the same Spark session, warm, at the same
codec and level: the table is rolled back between the runs, ours and theirs in turns, and both must leave the same rows.
MB/s of what lay in the table before. Each run begins alike: what the run before wrote is deleted and on disk, and the
memory that a run's output needs in the page cache was in use a moment ago. Iceberg's procedure leaves flushing to the
operating system, so ours is measured as it runs by default, flushed before the commit, and where the flush weighs most
also with `fsync = off`. (A virtual machine gets memory that it has
not used for some seconds anew from its host, here at 0.3 GB/s: without this a large copy is measured by its host.) Sort
and z-order are measured by `compaction_sort`.
"""

from __future__ import annotations

import mmap
import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import Figure, compare, within
from bench.lake_place import Place, open_place, run_compact, say
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.parquet.byte_files import Pace, Register
from thermocline.parquet.rewrite_task import BinResult, BinTask
from thermocline.runtime.file_io import use_fsync
from thermocline.runtime.locations import without_file_scheme
from thermocline.spark.kernels.compact_bin import run_bin

MEGABYTES = float(os.environ.get("BENCH_COMPACTION_MB", "230"))
LARGE_MEGABYTES = float(os.environ.get("BENCH_COMPACTION_LARGE_MB", "2000"))
TINY_FILES = int(os.environ.get("BENCH_COMPACTION_TINY_FILES", "2000"))
RUNS = int(os.environ.get("BENCH_COMPACTION_RUNS", "3"))
_MEMORY_LIMIT_MIB = 512
_PEAKS = "peaks"
_ROW_BYTES = 42.0
"""What a row of the table below takes on disk, about."""
TARGET_BYTES = 134_217_728
_ROWS = """
select id, timestamp_seconds(1700000000 + id) as ts,
    element_at(array('click', 'view', 'buy', 'refund'), cast(id % 4 + 1 as int)) as kind,
       cast(rand(1) * 100000 as decimal(12, 2)) as amount, rand(2) as score, concat('note ', id % 100000) as note,
       uuid() as tag
  from range(0, {rows}, 1, {files})"""
EAGER = Policy(preset="artemis", rewrite_min_input_files=2, min_input_scope="partition")
Step = Callable[[Place, "Case"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table and the ways it is compacted."""

    name: str
    table: str
    reach: float
    floor: float | None = None
    """A rate that is asked for whatever the yardstick does."""
    megabytes: float = MEGABYTES
    files: int = 200
    runs: int = RUNS
    level: int = 1
    written_by: str = "zstd"
    """The codec of the files; the table's is zstd by the time they are compacted."""
    policy: Policy = EAGER
    told: str = ""
    """How the line begins by which a pass tells that the kernel in question ran."""
    decoded: bool = False
    """Whether bins that could be spliced or merged are re-encoded all the same."""
    target_bytes: int = TARGET_BYTES
    procedure: str = ""
    """Further arguments of Iceberg's procedure."""
    also_unflushed: bool = False
    """Whether ours is measured a second time with `fsync = off`, as the yardstick runs."""
    prepare: Step = lambda _place, _case: None


def run() -> Sequence[Figure]:
    with open_place() as place:
        return [*(figure for case in _cases() for figure in measure(place, case)), memory_figure(place)]


def memory_figure(place: Place) -> Figure:
    """The peak memory of a Spark Python worker over all bins so far."""
    peaks = [float(line) for line in (place.directory / _PEAKS).read_text().splitlines()]
    return within("memory of a task, largest", max(peaks), _MEMORY_LIMIT_MIB, "MiB")


def _measured_bin(
    task: BinTask, register: Register, pace: Pace, *, peaks: Path, decoded: bool, fsync: bool
) -> BinResult:
    """Run the kernel, and record the worker's peak memory."""
    use_fsync(fsync)
    result = run_bin(replace(task, kernel="reencode") if decoded and task.kernel == "splice" else task, register, pace)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    with peaks.open("a") as told:
        told.write(f"{int(peak.split()[1]) / 1024:.1f}\n")
    return result


def _cases() -> list[Case]:
    spliced = replace(EAGER, splice_min_row_group_bytes=0)
    encoded = replace(EAGER, splice_min_row_group_bytes=1 << 40)
    merged = Case(
        name="bin-pack by merge, zstd 1",
        table="encoded",
        reach=2.5,
        policy=encoded,
        told="merged: ",
        also_unflushed=True,
    )
    decoded = Case(name="", table="decoded", written_by="snappy", reach=2.5, policy=encoded, told="re-encoded: ")
    return [
        Case(name="bin-pack by splice, 200 files", table="plain", reach=10, policy=spliced, also_unflushed=True),
        Case(
            name="bin-pack by splice, large",
            table="large",
            megabytes=LARGE_MEGABYTES,
            reach=20,
            policy=spliced,
            runs=min(RUNS, 2),
            also_unflushed=True,
        ),
        merged,
        replace(merged, name="bin-pack by merge, zstd 3", table="encoded3", level=3),
        Case(name="bin-pack by re-encode, zstd 1", table="again", reach=2.5, policy=encoded, decoded=True),
        Case(name="bin-pack by re-encode, zstd 3", table="again3", level=3, reach=2.5, policy=encoded, decoded=True),
        replace(decoded, name="bin-pack by re-encode, snappy to zstd 1"),
        replace(decoded, name="bin-pack by re-encode, snappy to zstd 3", table="decoded3", level=3),
        Case(
            name="tiny files",
            table="tiny",
            megabytes=MEGABYTES / 4,
            files=TINY_FILES,
            reach=1,
            floor=60,
            policy=spliced,
            also_unflushed=True,
        ),
        Case(name="20 % position deletes", table="positions", reach=2, prepare=_delete_a_fifth),
        Case(name="equality deletes", table="equality", reach=3, prepare=_delete_by_key),
    ]


def measure(place: Place, case: Case) -> list[Figure]:
    """Run both engines alternately on one table."""
    say(f"{case.name}: making the table")
    size = make_table(place, case)
    start, rows = read_head(place, case), read_rows(place, case)
    unflushed = {f"{case.name}, fsync = off": partial(run_ours, fsync=False)} if case.also_unflushed else {}
    sides: dict[str, Step] = {case.name: run_ours, **unflushed, "yardstick": run_theirs}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    folder = place.directory / "lake" / "bench" / case.table / "data"
    kept = set(folder.rglob("*"))
    for turn in range(case.runs + 1):
        for name, side in sides.items():
            settle(folder, kept, size)
            started = time.perf_counter()
            side(place, case)
            took = time.perf_counter() - started
            assert read_rows(place, case) == rows, f"{case.name}: {name} changed the rows"
            place.spark.sql(f"call thermocline.system.rollback_to_snapshot('bench.{case.table}', {start})")
            if turn:  # the first turn warms all up
                rates[name].append(size / 1e6 / took)
    say(f"{case.name}: {rates} MB/s")
    place.spark.sql(f"drop table thermocline.bench.{case.table} purge")
    theirs = rates.pop("yardstick")
    return [_figure(name, ours, theirs, case) for name, ours in rates.items()]


def _figure(name: str, ours: Sequence[float], theirs: Sequence[float], case: Case) -> Figure:
    figure = compare(name, ours, "Iceberg rewrite_data_files, warm", theirs, "MB/s", case.reach)
    if case.floor is None:
        return figure
    return replace(figure, reach=f">= {case.floor:g} MB/s", met=figure.value >= case.floor)


def settle(folder: Path, kept: set[Path], size: int) -> None:
    """Reset the state before a run: no files of other runs, no dirty pages, free memory."""
    for path in set(folder.rglob("*")) - kept:
        path.unlink()
    os.sync()
    with mmap.mmap(-1, size + size // 4) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def make_table(place: Place, case: Case) -> int:
    rows = int(case.megabytes * 1e6 / _ROW_BYTES)
    place.spark.sql("create namespace if not exists thermocline.bench")
    place.spark.sql(
        f"create table thermocline.bench.{case.table} using iceberg tblproperties ('format-version' = '2',"
        f" 'write.parquet.compression-codec' = '{case.written_by}', 'write.parquet.compression-level' = '{case.level}',"
        " 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none')"
        f" as {_ROWS.format(rows=rows, files=case.files)}"
    )
    place.spark.sql(
        f"alter table thermocline.bench.{case.table} set tblproperties ('write.parquet.compression-codec' = 'zstd')"
    )
    case.prepare(place, case)
    row = place.spark.sql(f"select sum(file_size_in_bytes) from thermocline.bench.{case.table}.files").first()
    assert row is not None
    return int(row[0])


def _delete_a_fifth(place: Place, case: Case) -> None:
    place.spark.sql(f"delete from thermocline.bench.{case.table} where id % 5 = 3")


def _delete_by_key(place: Place, case: Case) -> None:
    """One file of equality deletes, a tenth of the keys; no SQL writes one."""
    rows = int(case.megabytes * 1e6 / _ROW_BYTES)
    head = load_table(place.spark, TableName("bench", case.table))
    path = f"{head.location}/data/equality-{uuid.uuid4().hex[:8]}.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(
        pa.table([pa.array(range(0, rows, 10))], schema=schema), without_file_scheme(path), compression="zstd"
    )
    jvm: Any = place.spark._jvm
    gateway: Any = place.spark.sparkContext._gateway
    ids = gateway.new_array(jvm.int, 1)
    ids[0] = 1
    builder = (
        jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(head.table.spec()).ofEqualityDeletes(ids).withPath(path)
    )
    builder = builder.withFileSizeInBytes(Path(without_file_scheme(path)).stat().st_size).withRecordCount(
        len(range(0, rows, 10))
    )
    head.table.newRowDelta().addDeletes(builder.withFormat(jvm.org.apache.iceberg.FileFormat.PARQUET).build()).commit()


def run_ours(place: Place, case: Case, *, fsync: bool = True) -> None:
    use_fsync(fsync)
    policy = replace(case.policy, compression_level=case.level, rewrite_target_bytes=case.target_bytes)
    kernel = partial(_measured_bin, peaks=place.directory / _PEAKS, decoded=case.decoded, fsync=fsync)
    told = run_compact(place.context(case.table, policy), kernel)
    assert told.status == "done", told
    assert not case.told or any(line.startswith(case.told) for line in told.details), told.details


def run_theirs(place: Place, case: Case) -> None:
    options = (
        f"map('rewrite-all', 'true', 'target-file-size-bytes', '{case.target_bytes}', "
        "'max-concurrent-file-group-rewrites', '4')"
    )
    place.spark.sql(
        f"call thermocline.system.rewrite_data_files(table => 'bench.{case.table}', options => "
        f"{options}{case.procedure})"
    ).collect()


def read_head(place: Place, case: Case) -> int:
    snapshot = load_table(place.spark, TableName("bench", case.table)).snapshot_id
    assert snapshot is not None
    return snapshot


def read_rows(place: Place, case: Case) -> Any:
    return place.spark.sql(
        f"select count(*), sum(cast(xxhash64(*) as decimal(38, 0))) from thermocline.bench.{case.table}"
    ).collect()
