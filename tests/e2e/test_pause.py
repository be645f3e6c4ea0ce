"""Pause and resume: while paused nothing moves, folds or deletes; reads, writes and capture go on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.twin import Spanning

from thermocline.errors import Paused
from thermocline.ops.admin.pause import pause, resume
from thermocline.ops.fold import fold
from thermocline.ops.inspect.overview import read_detail, read_overview
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.worker.loop import Worker

STATE = "select t, s, fence, seam_line from thermocline.cutline"


@pytest.mark.conforms("O-024")
@pytest.mark.parametrize("all_of_them", [False, True], ids=["one table", "all tables"])
def test_while_paused_nothing_moves_and_reads_and_writes_go_on(spanning: Spanning, all_of_them: bool) -> None:
    name = None if all_of_them else spanning.name
    spanning.tier()
    before = spanning.query(STATE)
    report = pause(spanning.dsn, name)
    assert (report.changed, len(report.stops), report.busy) == (True, 6, ())
    assert not pause(spanning.dsn, name).changed
    spanning.both("insert into events (id, ts, v) values (9001, '2026-05-20 00:00+00', 1)")
    spanning.both("update events set v = v + 1 where id % 7 = 0 returning *")
    with pytest.raises(Paused, match="nothing of it moves"):
        spanning.tier()
    with pytest.raises(Paused):
        fold(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark)
    worker = Worker(spanning.dsn, spanning.settings)
    with connect(spanning.dsn, autocommit=True) as conn:
        assert worker.run_cycle(conn)
    assert spanning.query(STATE) == before
    spanning.assert_same_rows()
    assert read_overview(spanning.dsn)[0].paused_since is not None
    assert resume(spanning.dsn, name).changed
    assert not resume(spanning.dsn, name).changed
    assert read_overview(spanning.dsn)[0].paused_since is None
    assert spanning.tier().moved
    spanning.assert_same_rows()


@pytest.mark.conforms("O-024")
def test_a_table_stays_paused_while_all_are(spanning: Spanning) -> None:
    pause(spanning.dsn, None)
    pause(spanning.dsn, spanning.name)
    assert resume(spanning.dsn, spanning.name).still_paused
    with pytest.raises(Paused):
        spanning.tier()
    resume(spanning.dsn, None)
    assert spanning.tier().moved


@pytest.mark.conforms("O-024")
def test_files_nobody_committed_stay_while_paused(spanning: Spanning) -> None:
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute(
            "insert into thermocline.staged_files (path, table_id, op_id, at)"
            " select 'file:/nowhere.parquet', id, gen_random_uuid(), now() - interval '9 days' from thermocline.tables"
        )
        worker = Worker(spanning.dsn, spanning.settings)
        pause(spanning.dsn, spanning.name)
        worker.run_cycle(conn)
        assert spanning.query("select count(*) from thermocline.staged_files") == [(1,)]


@pytest.mark.conforms("O-024")
def test_the_command_line_prints_what_stops(spanning: Spanning) -> None:
    def thermocline(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "thermocline", *arguments, "--dsn", spanning.dsn]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    paused = thermocline("pause", "public.events")
    assert paused.returncode == 0, paused.stderr
    assert "no partition is sealed, copied or dropped" in paused.stdout
    assert "(paused)" in thermocline("tables").stdout
    refused = thermocline("tier", "public.events", "--local")
    assert (refused.returncode, "paused" in refused.stderr) == (3, True)
    assert json.loads(thermocline("resume", "--json").stdout)["changed"] is True


@pytest.mark.conforms("C-066")
def test_show_tells_what_the_last_cycle_said_and_what_comes_next(spanning: Spanning) -> None:
    spanning.tier()
    cycle = read_detail(spanning.dsn, spanning.name).cycle
    assert cycle is not None
    assert "moved 3 partitions" in cycle.sentence
    assert cycle.next_step == "public.events_2026_04 moves once a row at or above 2026-05-01 00:00:00+00 is there"
