"""The kill matrix of tiering: SIGKILL between every two steps, writes before the restart, then equal to the twin and
nothing left over.

`make test` kills at every point in the test's own Spark, `make faults` in one that dies with its driver, and each
combination of points.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from tests.at_points import at_every_point
from tests.faults.borrowed_spark import lend_spark
from tests.faults.points import ALL, PREMAKE, RESOLVE, TIER
from tests.twin import Spanning

from thermocline.errors import Fenced, LostRace
from thermocline.maintain.janitor import remove_stray_files
from thermocline.runtime.pg import connect


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


def kill_at(spanning: Spanning, point: str, child: str = "tier_child", *, own_spark: bool = ALL) -> int:
    """Run a cycle in a child that ends at the point, in the test's Spark or in one that loses its driver and ends; its
    exit status."""
    settings = spanning.settings.model_copy(update={"spark_driver_memory": "1g"})
    done = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{child}", settings.model_dump_json()],
        env={**os.environ, "THERMOCLINE_TEST_KILL_AT": point, **({} if own_spark else lend_spark(spanning.spark()))},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (
        f"the child was not killed at {point}: {done.stdout}\n{done.stderr[-2000:]}"
    )
    return done.returncode


def write_everywhere(spanning: Spanning, round_number: int) -> None:
    """Inserts, updates, deletes and moves in every month, whatever tier it is in just now."""
    for month in range(1, 5):
        key = 10_000 * round_number + month
        low = 120 * (month - 1) + 20 * round_number
        spanning.both(
            f"insert into events (id, ts, v) values ({key}, '2026-0{month}-17 03:00+00', {month}) returning *"
        )
        spanning.both(
            f"update events set v = v + 1, note = 'round {round_number}' where id between {low} and {low + 3} "
            "returning *"
        )
        spanning.both(f"delete from events where id between {low + 4} and {low + 5} returning id, v")
        spanning.both(f"update events set ts = ts + interval '40 days' where id = {low + 6} returning *")


def assert_nothing_left_over(spanning: Spanning) -> None:
    """Every op is finished, every partition tiered or dropped, and every file on storage is in the table or gone after
    the janitor."""
    assert spanning.query("select count(*) from thermocline.op_log where phase not in ('published', 'abandoned')") == [
        (0,)
    ]
    assert spanning.query("select count(*) from thermocline.partitions where state in ('sealing', 'tiering')") == [(0,)]
    assert spanning.query("select count(*) from thermocline.cutline where s is not null and seam_line >= t") == [(1,)]
    with connect(spanning.dsn, autocommit=True) as conn:
        remove_stray_files(conn, grace_seconds=0)
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]
    known = {
        row.file_path.split("/data/")[1]
        for row in spanning.spark().sql("select file_path from thermocline.public.events.files").collect()
    }
    root = Path(spanning.settings.warehouse_location)
    present = {str(path).split("/data/")[1] for path in root.rglob("*.parquet")}
    assert present == known
    snapshots = spanning.spark().sql("select count(*) from thermocline.public.events.snapshots").collect()[0][0]
    assert snapshots == spanning.query("select count(*) from thermocline.published")[0][0]


@pytest.mark.conforms("C-206")
def test_a_writer_that_was_overtaken_can_publish_nothing(spanning: Spanning, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cycle is overtaken (its lock lost, the table claimed by another) just before its commit, and wakes up
    afterwards."""

    def overtake(point: str) -> None:
        if point != "written":
            return
        at_every_point(monkeypatch, lambda _: None)
        with connect(spanning.dsn, autocommit=True) as conn:
            conn.execute(
                "select pg_terminate_backend(l.pid) from pg_locks l where l.locktype = 'advisory' and l.pid "
                "<> pg_backend_pid()"
                " and l.database = (select oid from pg_database where datname = current_database())"
            )
        assert len(spanning.tier().moved) == 3

    at_every_point(monkeypatch, overtake)
    with pytest.raises((LostRace, Fenced, psycopg.OperationalError)):
        spanning.tier()
    spanning.tier()
    spanning.assert_same_rows()
    count = spanning.twin.execute("select count(*) from events where ts < '2026-04-01'").fetchall()
    assert [
        tuple(row) for row in spanning.spark().sql("select count(*) from thermocline.public.events").collect()
    ] == count
    assert_nothing_left_over(spanning)
