"""Compaction tasks of all workers share a few slots; a slot is free again when its task's connection ends."""

from __future__ import annotations

from contextlib import closing

import pytest

from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.spark.jobs.slots import acquire_slot


class NoPlace(Exception):
    pass


def refuse(_seconds: float) -> None:
    raise NoPlace


def test_no_more_tasks_run_at_once_than_there_are_places_whichever_worker_they_are_of(database: str) -> None:
    tasks = [connect(database, autocommit=True) for _ in range(4)]
    assert {acquire_slot(task, 4) for task in tasks} == {0, 1, 2, 3}
    with closing(connect(database, autocommit=True)) as fifth:
        with pytest.raises(NoPlace):
            acquire_slot(fifth, 4, refuse)
        tasks.pop().close()
        fifth.execute("select pg_stat_clear_snapshot()")
        assert acquire_slot(fifth, 4) in range(4)
    assert acquire_slot(tasks[0], 0) is None
    for task in tasks:
        task.close()
