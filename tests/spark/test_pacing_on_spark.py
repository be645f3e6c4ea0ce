"""Budgets and quiet windows where they are kept: inside the tasks of a worker, and shared by all of them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.maintenance_ops import run_compact
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import EAGER, Lake

from thermocline.core.maintenance.bins import plan_compaction
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.pacing import MB, Pace, plan_pace
from thermocline.core.policy.policy import Policy
from thermocline.lake.read.table_files import TableFiles
from thermocline.maintain.latency import LatencyProbe
from thermocline.maintain.operations.compaction_tasks import plan_tasks, read_seen
from thermocline.maintain.pacing import Pacing, pacing_of
from thermocline.parquet.rewrite_task import BinResult, BinTask
from thermocline.runtime.settings import Settings
from thermocline.spark.jobs.compact import BinBatch, BinFailed, Staging, _run_on_executor, run_bins
from thermocline.spark.kernels.compact_bin import run_bin

Paced = Callable[[int, int], None]
RANDOM = "concat_ws('', " + ", ".join(f"sha2(concat('{salt}', id), 512)" for salt in range(3)) + ")"


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Lake:
    """Two partitions of two files each, 12 MB of text that hardly shrinks."""
    lake = Lake.make(lake_database, "id bigint, body string, region string", partitioned="region")
    for region in ("eu", "us"):
        lake.run(f"insert into {{t}} select id, {RANDOM}, '{region}' from range(0, 16000, 1, 2)")
    return lake


class Watched:
    """Both partitions rewritten at once under a pace, and when each piece of I/O was over."""

    def __init__(self, lake: Lake, folder: Path, pace: Pace) -> None:
        folder.mkdir()

        def kernel(task: BinTask, register: Callable[[str], None], paced: Paced) -> BinResult:
            pieces = [(time.time(), 0, 0)]

            def piece(read: int, written: int) -> None:
                paced(read, written)
                pieces.append((time.time(), read, written))

            result = run_bin(task, register, piece)
            (folder / f"{task.number}").write_text(json.dumps(pieces))
            return result

        with lake.context() as context:
            head = lake.head()
            plan = plan_compaction(read_seen(TableFiles(), head), EAGER, lake.now)
            tasks = plan_tasks(context, head, plan)
            staging = Staging(dsn=context.dsn, pass_id=str(uuid.uuid4()), lake_id=lake.lake_id)
            self.results = list(run_bins(lake.spark, staging, tasks, kernel, parallel=2, pace=lambda: pace))
        self.tasks = [json.loads(path.read_text()) for path in sorted(folder.iterdir())]
        pieces = [piece for task in self.tasks for piece in task]
        self.seconds = max(at for at, _, _ in pieces) - min(at for at, _, _ in pieces)
        self.read, self.written = sum(read for _, read, _ in pieces), sum(written for _, _, written in pieces)
        self.operations = len(pieces) - len(self.tasks)


@pytest.mark.conforms("M-138")
def test_a_workers_budget_holds_for_all_of_its_tasks_together(lake: Lake, tmp_path: Path) -> None:
    """Any ten seconds are looked at in tests/unit/test_pacing.py, by a clock of its own; how much of a budget is used,
    in bench."""
    size = sum(file.size_bytes for file in lake.seen().data)
    reading = Watched(lake, tmp_path / "read", plan_pace(Policy(max_read_mb_per_s=20)))
    assert len(reading.tasks) == 2
    assert all(isinstance(result, BinResult) for result in reading.results)
    assert size <= reading.read <= size * 1.1
    assert reading.read / reading.seconds <= 20 * MB
    writing = Watched(lake, tmp_path / "written", plan_pace(Policy(max_write_mb_per_s=20)))
    assert writing.written >= size * 0.8
    assert writing.written / writing.seconds <= 20 * MB
    asking = Watched(lake, tmp_path / "asked", plan_pace(Policy(max_iops=reading.operations)))
    assert asking.operations / asking.seconds <= reading.operations
    share = pacing_of(
        Policy(preset="artemis", bandwidth_share=0.3), Settings(), lake.head().metadata_location, ignore=False
    )
    assert isinstance(share, Pacing)
    limit = share.pace().read_bytes_per_s
    assert share.measured_bytes_per_s is not None
    assert limit == pytest.approx(0.3 * share.measured_bytes_per_s)
    shared = Watched(lake, tmp_path / "shared", share.pace())
    assert 0 < shared.read / shared.seconds <= limit


class Clock:
    """Says these moments one after the other, then the last one."""

    def __init__(self, *moments: str) -> None:
        self._left: Iterator[str] = iter(moments)
        self._now = moments[0]

    def __call__(self) -> datetime:
        self._now = next(self._left, self._now)
        return datetime.fromisoformat(f"2026-03-02 {self._now}").replace(tzinfo=UTC)


def compact_at(lake: Lake, clock: Callable[[], datetime]) -> Outcome:
    pacing = Pacing(policy=replace(EAGER, quiet_windows="09:00-17:00 UTC"), probe=LatencyProbe(), clock=clock)
    with lake.context(why_pause=pacing.why_pause, pace=pacing.pace, policy={"max_parallel_tasks": 1}) as context:
        return run_compact(context)


@pytest.mark.conforms("M-140")
def test_a_quiet_window_that_begins_ends_the_pass_at_the_next_bin_and_the_next_one_does_the_rest(
    lake_database: LakeDatabase,
) -> None:
    """Windows across midnight, several and by weekday are read in tests/unit/test_quiet_windows.py."""
    lake = Lake.make(lake_database, "id bigint, region string", partitioned="region")
    lake.append([(at, region) for region in ("ap", "eu", "us") for at in range(20)], files=2)
    rows = lake.rows()
    told = compact_at(lake, Clock("08:58", "08:58", "09:00"))
    assert told.status == "paused"
    assert told.sentence.startswith("paused: quiet window 09:00-17:00 UTC, resumes 2026-03-02 17:00 UTC; compacted ")
    assert 0 < told.counters["bins"] < 3
    none = compact_at(lake, Clock("16:59"))
    assert (none.status, none.counters["bins"]) == ("paused", 0)
    assert compact_at(lake, Clock("17:00")).counters["bins"] == 3 - told.counters["bins"]
    assert len(lake.seen().data) == 3
    assert lake.rows() == rows


@pytest.mark.conforms("M-140")
def test_a_task_with_many_bins_begins_none_after_the_window_began(database: str) -> None:
    begins = time.time() + 1

    def kernel(task: BinTask, _register: Callable[[str], None], _paced: Paced) -> int:
        time.sleep(max(begins - time.time(), 0))
        return task.number

    def bins(until: float) -> list[int | BinFailed]:
        tasks = tuple(
            BinTask(
                number=at,
                kernel="splice",
                inputs=(),
                deletes=(),
                schema_json="{}",
                directory="",
                name_prefix="",
                target_bytes=1,
            )
            for at in range(3)
        )
        staging = Staging(dsn=database, pass_id=str(uuid.uuid4()), lake_id=1)
        return _run_on_executor(BinBatch(staging=staging, bins=tasks, pace=Pace(until=until)), kernel)

    assert bins(begins) == [0]
    assert bins(begins) == []
    assert bins(begins + timedelta(hours=1).total_seconds()) == [0, 1, 2]
