"""What a worker records of its work, and what `/metrics` makes of it: cycles, ops, waiting corrections, heartbeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.twin import Spanning

from thermocline.api.catalog_metrics import catalog_registry
from thermocline.catalog.health.workers import read_workers
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker

UNWATCHED = "alter event trigger thermocline_alter_start disable; alter event trigger thermocline_alter_end disable"


def metrics(spanning: Spanning) -> dict[tuple[str, ...], float]:
    text = generate_latest(catalog_registry(spanning.settings)).decode()
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "table")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.conforms("O-079", "O-080", "O-089")
def test_cycles_ops_and_waiting_corrections_are_counted_across_workers(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning()
    settings = spanning.settings.model_copy(update={"fold_min_rows": 3, "fold_interval_seconds": 3600.0})
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        tiered = metrics(spanning)
        assert tiered["thermocline_lake_commits_total", "tier"] == 1
        assert (
            tiered["thermocline_moved_rows_total", "tier"]
            == spanning.query("select sum(rows_in_lake) from thermocline.partitions")[0][0]
        )
        assert tiered["thermocline_cycles_total", "finished"] == 1
        spanning.both("update events set v = v + 1 where id in (3, 7) returning id")
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        waiting = metrics(spanning)
        assert (waiting["thermocline_delta_backlog_rows",], waiting["thermocline_cycles_total", "finished"]) == (2, 2)
        assert ("thermocline_lake_commits_total", "fold") not in waiting
        spanning.both("update events set v = v + 1 where id in (9, 11) returning id")
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        folded = metrics(spanning)
        assert (folded["thermocline_delta_backlog_rows",], folded["thermocline_delta_oldest_seconds",]) == (0, 0)
        assert folded["thermocline_lake_commits_total", "fold"] == 1
        assert folded["thermocline_moved_rows_total", "fold"] == 4
        spanning.seam.execute(UNWATCHED.encode())
        spanning.seam.execute("alter table public.events drop constraint events_pkey")
        for _ in range(2):
            assert not Worker(spanning.dsn, settings).run_cycle(conn)
        failed = metrics(spanning)
        assert failed["thermocline_cycles_total", "failed"] == 2
        assert failed["thermocline_cycles_total", "finished"] == 3
        ((since, at),) = spanning.query("select failing_since, at from thermocline.cycles")
        assert since < at, "the first of the failed cycles counts"
        spanning.seam.execute("alter table public.events add primary key (id, ts)")
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        assert spanning.query("select failing_since from thermocline.cycles") == [(None,)]
    spanning.assert_same_rows()


def test_corrections_that_waited_long_enough_are_folded_by_the_next_worker_too(
    make_spanning: Callable[..., Spanning],
) -> None:
    """The time they wait is in the catalog: a worker that starts again does not begin to count anew."""
    spanning = make_spanning()
    settings = spanning.settings.model_copy(update={"fold_min_rows": 1000, "fold_interval_seconds": 3600.0})
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        spanning.both("update events set v = v + 1 where id = 3 returning id")
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        assert ("thermocline_lake_commits_total", "fold") not in metrics(spanning)
        spanning.seam.execute("update thermocline.waiting_corrections set since = since - interval '2 hours'")
        assert Worker(spanning.dsn, settings).run_cycle(conn)
        assert metrics(spanning)["thermocline_lake_commits_total", "fold"] == 1
    spanning.assert_same_rows()


def test_a_worker_records_its_cycles_and_its_heart_beats_while_one_runs(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning()
    worker = Worker(spanning.dsn, spanning.settings)
    threads = [threading.Thread(target=target, daemon=True) for target in (worker.run, worker.keep_beating)]
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 120
        while [seen.cycle_finished_at is not None for seen in read_workers(conn)] != [True]:
            assert time.monotonic() < deadline, read_workers(conn)
            time.sleep(0.2)
        (seen,) = read_workers(conn)
        assert seen.started_at <= seen.seen_at
        assert seen.cycle_seconds is not None
        worker.stop()
        for thread in threads:
            thread.join()
        assert read_workers(conn) == ()
