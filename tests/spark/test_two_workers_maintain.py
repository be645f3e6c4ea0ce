"""Two workers on one table: different partitions at the same time, one partition never twice at once, tasks counted
over both."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.catalog.maintenance import forced_passes as queue
from thermocline.catalog.maintenance.policies import apply_policy
from thermocline.catalog.safety import Owner
from thermocline.core.maintenance.pacing import UNPACED
from thermocline.core.policy.policy_layers import change_policy, parse_changes
from thermocline.maintain.pass_requests import request_to_data
from thermocline.maintain.run_pass import PassRequest
from thermocline.parquet.rewrite_task import BinTask
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings
from thermocline.spark.jobs.compact import BinBatch, Staging, _run_on_executor
from thermocline.spark.jobs.slots import acquire_slot
from thermocline.worker.maintenance import MaintenanceThreads, serve_forced

WAIT_SECONDS = 120


class Workers:
    """Workers of one table, each with a connection of its own, that serve forced passes."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.owner = lake, Owner(lake_id=lake.lake_id)
        self._pool = ThreadPoolExecutor(4)

    def policy(self, *changes: str) -> None:
        with closing(self.lake.lake_database.connect()) as conn:
            apply_policy(conn, self.owner, lambda before: change_policy(before, parse_changes(list(changes))))

    def force_pass(self, worker: str, region: str) -> Callable[[], dict[str, Any]]:
        """Force a pass over one region that the worker runs at once; returns its report."""
        dsn = self.lake.lake_database.dsn
        with closing(connect(dsn, autocommit=True)) as conn:
            request = request_to_data(PassRequest(operations=("compact",), where=f"region = '{region}'"))
            request_id = queue.file_forced_pass(conn, self.owner, request)
        served = self._pool.submit(self._serve, worker)

        def answer() -> dict[str, Any]:
            assert served.result(WAIT_SECONDS) == 1
            with closing(connect(dsn, autocommit=True)) as conn:
                state = queue.read_forced_pass(conn, request_id)
            assert state is not None
            assert state.result is not None
            return dict(state.result)

        return answer

    def _serve(self, worker: str) -> int:
        dsn = self.lake.lake_database.dsn
        serving = MaintenanceThreads(dsn, Settings(dsn=dsn), lambda: self.lake.spark, worker, threading.Event())
        with closing(connect(dsn, autocommit=True, application_name="thermocline worker")) as conn:
            conn.execute(
                "insert into thermocline.workers (name, pid, host, backend_pid) values (%s, 1, 'h', pg_backend_pid())"
                " on conflict (name) do update set backend_pid = excluded.backend_pid",
                [worker],
            )
            return serve_forced(serving, conn)

    def wait_for(self, statement: str) -> None:
        """Wait until the query returns true."""
        over = threading.Event()
        with closing(self.lake.lake_database.connect()) as conn:
            while conn.execute(statement.encode()).fetchone() != (True,):
                assert not over.wait(0.05)


@pytest.mark.conforms("M-133", "M-137")
def test_two_workers_compact_two_partitions_at_once_and_never_one_partition_twice(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, region string", partitioned="region")
    lake.append([(at, region) for region in ("eu", "us") for at in range(40)], files=3)
    rows, before = lake.rows(), lake.head().snapshot_id
    workers = Workers(lake)
    workers.policy("rewrite_min_input_files=2", "max_parallel_tasks=1", "sealed_after=1h")
    with closing(lake_database.connect()) as place:
        assert acquire_slot(place, 1) == 0
        first = workers.force_pass("w1", "eu")  # stands in its task, which waits for the only place
        workers.wait_for("select exists (select from pg_stat_activity where application_name = 'thermocline compact')")
        workers.policy("max_parallel_tasks=4")
        same = workers.force_pass("w2", "eu")()
        other = workers.force_pass("w2", "us")()
        meanwhile = lake.head()
    eu = first()
    assert same["outcomes"][0]["sentence"] == "another compaction works on this partition"
    assert same["outcomes"][0]["details"][0] == "region=eu (spec 1): another compaction works on this partition"
    assert other["status"] == eu["status"] == "done"
    assert (
        "no partition is a window of time, so none waits to be sealed; two compactions never work on one "
        "partition at once"
    ) in other["outcomes"][0]["details"]
    assert meanwhile.snapshot_id != before, "the second worker was done while the first was at work"
    assert len(lake.seen().data) == 2
    assert lake.rows() == rows
    assert not lake.staged()
    kept = lake_database.rows(
        "select worker, phase from thermocline.op_log where kind = 'maintain' order by started_at"
    )
    assert kept == [("w1", "published"), ("w2", "published"), ("w2", "published")]


@pytest.mark.conforms("M-139")
def test_of_six_tasks_of_two_workers_four_run_at_once(lake_database: LakeDatabase) -> None:
    running, most, lock, full = [0], [0], threading.Lock(), threading.Barrier(4)

    def kernel(task: BinTask, _register: Callable[[str], None], _pace: Callable[[int, int], None]) -> int:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        if task.number < 4:
            full.wait(WAIT_SECONDS)  # passes only when four are inside
        with lock:
            running[0] -= 1
        return task.memory_bytes

    def share(number: int, pass_id: str) -> BinBatch:
        task = BinTask(
            number=number,
            kernel="splice",
            inputs=(),
            deletes=(),
            schema_json="{}",
            directory="",
            name_prefix="",
            target_bytes=1,
        )
        return BinBatch(
            staging=Staging(dsn=lake_database.dsn, pass_id=pass_id, lake_id=1, slots=4), bins=(task,), pace=UNPACED
        )

    passes = [str(uuid.uuid4()), str(uuid.uuid4())]
    with ThreadPoolExecutor(8) as pool:
        under_way = [pool.submit(_run_on_executor, share(number, passes[number % 2]), kernel) for number in range(4)]
        under_way += [
            pool.submit(_run_on_executor, share(number, passes[number % 2]), kernel) for number in range(4, 8)
        ]
        limits = [limit for found in under_way for limit in found.result(WAIT_SECONDS)]
    assert most == [4]
    assert limits == [BinTask.__dataclass_fields__["memory_bytes"].default] * 8
