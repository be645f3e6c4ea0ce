"""Upkeep: expiry of 5,000 snapshots, an orphan sweep over a million files, manifests rewritten, passes beside ingest.

The yardstick of manifests is Iceberg's own procedure on a table made in the same way, in the same Spark session. The
memory is what this process and the JVM's heap grew by at most while ours ran. BENCH_UPKEEP_PARTS=expiry,sweep names the
parts to run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from bench.figures import Figure, compare, reported, within
from bench.lake_history import LakeHistory, batches
from bench.lake_place import Place, open_place, run_expire_snapshots, run_remove_orphans, run_rewrite_manifests, say
from bench.paced import run_paced
from bench.sealed_windows import EAGER, SimulatedDay
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.read.table_metadata import forget_cached_tables
from thermocline.maintain.context import PassContext
from thermocline.runtime.locations import without_file_scheme

SNAPSHOTS = int(os.environ.get("BENCH_UPKEEP_SNAPSHOTS", "5000"))
FILES = int(os.environ.get("BENCH_UPKEEP_FILES", "1000000"))
MANIFESTS = int(os.environ.get("BENCH_UPKEEP_MANIFESTS", "2000"))
LIST_ENTRIES = int(os.environ.get("BENCH_UPKEEP_LIST_ENTRIES", "5000"))
PASSES = int(os.environ.get("BENCH_UPKEEP_PASSES", "100"))
_MEMORY_LIMIT_MIB = 512
_LINKS = 50_000
"""Files of one inode, which is quicker than one each; file systems allow about so many."""
_NOW = datetime.now(UTC)


def _make(place: Place, name: str) -> Any:
    """An empty table, as Iceberg's Java object."""
    place.spark.sql("create namespace if not exists thermocline.bench")
    place.spark.sql(
        f"create table thermocline.bench.{name} (id bigint, part bigint) using iceberg partitioned by (part)"
        " tblproperties ('format-version' = '2')"
    )
    return _head(place, name).table


def _head(place: Place, name: str) -> LakeHead:
    return load_table(place.spark, TableName("bench", name))


def _context(place: Place, name: str, **policy: Any) -> PassContext:
    return place.context(name, Policy(**policy), _NOW + timedelta(days=30))


def run() -> Sequence[Figure]:
    with open_place("2g") as place:
        return [figure for part in PARTS for figure in _PARTS[part](place)]


def _expiry(place: Place) -> Iterator[Figure]:
    """Every snapshot has a file of its own, so all but one of each go."""
    say(f"making {SNAPSHOTS:,} snapshots")
    _make(place, "expiry")
    made = LakeHistory(_head(place, "expiry"))
    for number in range(1, SNAPSHOTS + 1):
        Path(without_file_scheme(made.file(number, number % 16))).touch()
    made.commit([[made.manifest([number], (number % 16,), number)] for number in range(1, SNAPSHOTS + 1)])
    context = _context(place, "expiry", snapshot_min_retained=1, snapshot_retention_ms=1)
    with _memory(place) as grown:
        seconds = _timed(lambda: run_expire_snapshots(context))
    left = len(_head(place, "expiry").metadata["snapshots"])
    files = sum(1 for _ in Path(without_file_scheme(made.location), "data").iterdir())
    assert (left, files) == (1, 1), (left, files)
    yield reported(f"expiry of {SNAPSHOTS:,} snapshots", SNAPSHOTS / seconds, "snapshots/s")
    yield within(f"expiry of {SNAPSHOTS:,} snapshots, memory", grown(), _MEMORY_LIMIT_MIB, "MiB")


def _sweep(place: Place) -> Iterator[Figure]:
    """Sweep old files of one folder, a tenth of which are orphans."""
    say(f"making {FILES:,} files")
    _make(place, "sweep")
    made = LakeHistory(_head(place, "sweep"))
    folder, old = Path(without_file_scheme(made.location), "data"), time.time() - 30 * 24 * 3600
    for number in range(FILES):
        path = without_file_scheme(made.file(number, 1))
        if number % _LINKS == 0:
            first = Path(path)
            first.touch()
            os.utime(first, (old, old))
        else:
            os.link(first, path)
    named = FILES - FILES // 10
    made.commit([[made.manifest(numbers, (1,)) for numbers in batches(named, 50_000)]])
    context = _context(place, "sweep")
    with _memory(place) as grown:
        seconds = _timed(lambda: run_remove_orphans(context))
    left = sum(1 for _ in folder.iterdir())
    assert left == named, left
    yield reported(f"orphan sweep of {FILES:,} files", FILES / seconds, "files/s")
    yield within(f"orphan sweep of {FILES:,} files, memory", grown(), _MEMORY_LIMIT_MIB, "MiB")


def _manifests(place: Place) -> Iterator[Figure]:
    """Manifests as ingest leaves them, each with files of partitions far apart."""
    for name in ("manifests_ours", "manifests_theirs"):
        _make_manifests(place, name, MANIFESTS)
    before = _plan_seconds(place, "manifests_ours")
    theirs = _timed(
        lambda: place.spark.sql("call thermocline.system.rewrite_manifests('bench.manifests_theirs')").collect()
    )
    ours = _timed(lambda: run_rewrite_manifests(_context(place, "manifests_ours", manifest_rewrite_min_manifests=2)))
    after = _plan_seconds(place, "manifests_ours")
    yield compare(
        f"rewriting {MANIFESTS:,} manifests",
        [MANIFESTS / ours],
        "Iceberg rewrite_manifests",
        [MANIFESTS / theirs],
        "manifests/s",
        1.0,
    )
    yield compare("plans after rewriting manifests", [1 / after], "plans before", [1 / before], "plans/s", 5.0)


def _manifest_list(place: Place) -> Iterator[Figure]:
    """A long manifest list becomes a twentieth of it, and a cold plan takes a tenth of the time."""
    _make_manifests(place, "listed", LIST_ENTRIES)
    before = _plan_seconds(place, "listed")
    policy = {"preset": "artemis", "manifest_rewrite_min_manifests": 2, "manifest_target_bytes": 20_000}
    told = run_rewrite_manifests(_context(place, "listed", **policy))
    after = _plan_seconds(place, "listed")
    say(told.sentence)
    left = told.counters["manifests_written"]
    yield within(f"manifest list of {LIST_ENTRIES:,}, entries left", left, LIST_ENTRIES / 20 * 1.25, "entries")
    yield compare(
        f"cold plans, manifest list of {LIST_ENTRIES:,} rewritten",
        [1 / after],
        "plans before",
        [1 / before],
        "plans/s",
        10.0,
    )


def _sealed(place: Place) -> Iterator[Figure]:
    """A day of passes beside ingest, of closed hours alone and, with fewer passes, of all."""
    found = {}
    for name, sealed_after_ms, passes in (("sealed", 0, PASSES), ("unsealed", -1, max(PASSES // 4, 1))):
        say(f"a day of {passes} passes, {name}")
        SimulatedDay.make_table(place.spark, TableName("bench", name))
        context, policy = _context(place, name), replace(EAGER, sealed_after_ms=sealed_after_ms)
        day = SimulatedDay(spark=place.spark, name=TableName("bench", name), context=context, policy=policy)
        found[name] = day.run(passes=passes, files_per_pass=4)
        say(str(found[name]))
    sealed, unsealed = found["sealed"], found["unsealed"]
    beside = f"unsealed: {unsealed.conflicts} in {unsealed.passes}"
    yield within(f"commit conflicts in {PASSES} passes, sealed", sealed.conflicts, 0, "conflicts", beside)
    yield within("most files at once, sealed", sealed.most_files, 60, "files", f"unsealed: {unsealed.most_files}")


_PARTS: Mapping[str, Callable[[Place], Iterator[Figure]]] = {
    "expiry": _expiry,
    "sweep": _sweep,
    "manifests": _manifests,
    "manifest_list": _manifest_list,
    "sealed": _sealed,
    "paced": run_paced,
}
PARTS = os.environ.get("BENCH_UPKEEP_PARTS", ",".join(_PARTS)).split(",")


def _make_manifests(place: Place, name: str, count: int) -> None:
    """One snapshot of many manifests of four files each."""
    say(f"making {count:,} manifests")
    _make(place, name)
    made = LakeHistory(_head(place, name))
    made.commit([[made.manifest([at], tuple((at + step * 16) % 64 for step in range(4))) for at in range(count)]])


def _plan_seconds(place: Place, name: str) -> float:
    """How long one partition takes to plan, from the metadata file on, by Iceberg itself; the best of three."""
    jvm: Any = place.spark._jvm
    wanted = jvm.org.apache.iceberg.expressions.Expressions.equal("part", 1)
    best = float("inf")
    for _ in range(3):
        table = _head(place, name).table
        started = time.perf_counter()
        tasks = table.newScan().filter(wanted).planFiles()
        found = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        best = min(best, time.perf_counter() - started)
        tasks.close()
        assert found
    return best


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _memory(place: Place) -> Iterator[Callable[[], float]]:
    """The largest growth of this process and of the JVM's used heap while the block ran, in MiB."""
    jvm: Any = place.spark._jvm
    jvm.java.lang.System.gc()
    forget_cached_tables()
    process, runtime = psutil.Process(), jvm.java.lang.Runtime.getRuntime()

    def used() -> int:
        return int(process.memory_info().rss) + int(runtime.totalMemory() - runtime.freeMemory())

    start = used()
    peak, over = [start], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            peak[0] = max(peak[0], int(process.memory_info().rss) + int(runtime.totalMemory() - runtime.freeMemory()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield lambda: (peak[0] - start) / 2**20
    over.set()
    watcher.join()
