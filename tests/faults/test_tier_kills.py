"""The kill matrix of tiering: SIGKILL between every two steps, writes before the restart, then equal to the twin and
nothing left over.

`make test` kills at every point in the test's own Spark, `make faults` in one that dies with its driver, and each
combination of points.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import psycopg
import pytest
from tests.fault_points import patch_fault_points
from tests.faults.kills import assert_nothing_left_over, kill_at, write_everywhere
from tests.faults.points import ALL, PREMAKE, RESOLVE, TIER
from tests.twin import Spanning

from thermocline.errors import Fenced, LostRace
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.mark.conforms("C-133", "C-208", "C-210")
@pytest.mark.parametrize("point", TIER)
def test_tiering_killed_at_any_step_resumes_and_loses_nothing(spanning: Spanning, point: str) -> None:
    assert kill_at(spanning, point, own_spark=ALL or point == "copied") == -signal.SIGKILL
    spanning.assert_same_rows()
    write_everywhere(spanning, 1)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    write_everywhere(spanning, 2)
    spanning.tier()
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


@pytest.mark.conforms("C-208")
@pytest.mark.parametrize("point", PREMAKE)
def test_premake_killed_at_any_step_is_finished_by_the_next_cycle(
    make_spanning: Callable[..., Spanning], point: str
) -> None:
    """The row that ran ahead waits in the spill until the partition made for it takes it."""
    spanning = make_spanning(premake=2)
    spanning.both("insert into events (id, ts, v) values (9001, '2026-05-17 03:00+00', 1) returning *")
    kill_at(spanning, point)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.tier()
    spanning.assert_same_rows()
    assert spanning.query("select tableoid::regclass::text not like '%spill%' from public.events where id = 9001") == [
        (True,)
    ]
    assert_nothing_left_over(spanning)


@pytest.mark.conforms("C-210")
@pytest.mark.parametrize("point", RESOLVE)
def test_a_restart_killed_while_it_resolves_is_resolved_by_the_next(spanning: Spanning, point: str) -> None:
    assert kill_at(spanning, "committed") == -signal.SIGKILL
    assert kill_at(spanning, point) == -signal.SIGKILL
    spanning.assert_same_rows()
    spanning.tier()
    spanning.tier()
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


@pytest.mark.conforms("C-206")
def test_a_writer_that_was_overtaken_can_publish_nothing(spanning: Spanning, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cycle is overtaken (its lock lost, the table claimed by another) just before its commit, and wakes up
    afterwards."""

    def overtake(point: str) -> None:
        if point != "written":
            return
        patch_fault_points(monkeypatch, lambda _: None)
        with connect(spanning.dsn, autocommit=True) as conn:
            conn.execute(
                "select pg_terminate_backend(l.pid) from pg_locks l where l.locktype = 'advisory' and l.pid "
                "<> pg_backend_pid()"
                " and l.database = (select oid from pg_database where datname = current_database())"
            )
        assert len(spanning.tier().moved) == 3

    patch_fault_points(monkeypatch, overtake)
    with pytest.raises((LostRace, Fenced, psycopg.OperationalError)):
        spanning.tier()
    spanning.tier()
    spanning.assert_same_rows()
    count = spanning.twin.execute("select count(*) from events where ts < '2026-04-01'").fetchall()
    assert [
        tuple(row) for row in spanning.spark().sql("select count(*) from thermocline.public.events").collect()
    ] == count
    assert_nothing_left_over(spanning)
