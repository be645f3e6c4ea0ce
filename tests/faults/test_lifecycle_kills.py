"""The kill matrix of retention, registration and unregistration: SIGKILL between every two steps, then the same again
finishes the work.

`make test` kills at every point once, `make faults` at every point of every way there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.adoption import adopt_lake, assert_heap_is_twin, unregister_spanning, write_heap_and_twin
from tests.faults.kills import kill_at, write_everywhere
from tests.faults.points import ALL, REGISTER, RETAIN, UNREGISTER
from tests.twin import Spanning

from thermocline.maintain.janitor import remove_leftover_lakes, remove_stray_files
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.register.unregistration import unregister
from thermocline.runtime.pg import connect_as_typed as connect


def kill_lifecycle(spanning: Spanning, point: str, verb: str, **choices: object) -> None:
    """Run a verb in a child that ends at the point."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("lifecycle_child.py")),
            spanning.settings.model_dump_json(),
            verb,
            json.dumps(choices),
        ],
        env={**os.environ, "THERMOCLINE_TEST_KILL_AT": point},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (
        f"the child was not killed at {point}: {done.stdout}\n{done.stderr[-2000:]}"
    )


def lakes(spanning: Spanning) -> set[str]:
    """The directories of lake tables on storage."""
    return {str(path.parent) for path in Path(spanning.settings.warehouse_location).rglob("metadata")}


def sweep(spanning: Spanning) -> None:
    with connect(spanning.dsn, autocommit=True) as conn:
        remove_leftover_lakes(conn, grace_seconds=0)
    assert spanning.query("select count(*) from thermocline.lake_leftovers") == [(0,)]


def assert_every_file_is_known(spanning: Spanning) -> None:
    """Ops are finished, and what is on storage belongs to some snapshot once the janitor was there: expired files wait
    for maintenance."""
    assert spanning.query("select count(*) from thermocline.op_log where phase not in ('published', 'abandoned')") == [
        (0,)
    ]
    with connect(spanning.dsn, autocommit=True) as conn:
        remove_stray_files(conn, grace_seconds=0)
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]
    listed = spanning.spark().sql("select file_path from thermocline.public.events.all_files").collect()
    present = {str(path).split("/data/")[1] for path in Path(spanning.settings.warehouse_location).rglob("*.parquet")}
    assert present == {row.file_path.split("/data/")[1] for row in listed}


def write_history(spanning: Spanning) -> None:
    """Inserts, updates and deletes in every month, in whatever tier it is."""
    spanning.both("update events set v = v + 1, note = 'again' where id in (20, 30, 151, 271, 391) returning *")
    spanning.both("delete from events where id in (31, 152, 272, 392) returning id")
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2026-01-17', 1), (9002, '2026-04-17', 1), (9003, "
        "'2020-01-01', 1)"
    )


@pytest.mark.conforms("C-117", "C-133", "C-209", "C-210")
@pytest.mark.parametrize("point", RETAIN)
def test_retention_killed_at_any_step_resumes_and_takes_no_row_too_many(
    make_spanning: Callable[..., Spanning], point: str
) -> None:
    """The layout is by year, so that whole files go and others lose rows."""
    spanning = make_spanning(lake_retention="30d", lake_partition="year")
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (20, 150, 270, 390) returning *")
    spanning.fold()
    kill_at(spanning, point)
    if point != "retain-published":
        spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (271, 272, 391)")
    spanning.tier()
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()
    assert_every_file_is_known(spanning)


@pytest.mark.conforms("C-014", "C-209")
@pytest.mark.parametrize("point", REGISTER)
def test_a_registration_killed_at_any_step_leaves_no_trace_or_is_whole(spanning: Spanning, point: str) -> None:
    unregister_spanning(spanning)
    assert lakes(spanning) == set()
    kill_lifecycle(spanning, point, "register")
    is_there = spanning.query("select count(*) from thermocline.tables")[0][0]
    assert is_there == (point == "register-committed")
    if not is_there:
        assert spanning.query(
            "select to_regclass('public_all.events'), to_regclass('thermocline_delta.public__events')"
        ) == [(None, None)]
    sweep(spanning)
    assert len(lakes(spanning)) == is_there
    assert register(
        spanning.dsn, RegisterRequest(table=spanning.name, premake=0), settings=spanning.settings
    ).already == bool(is_there)
    assert len(lakes(spanning)) == 1
    write_everywhere(spanning, 1)
    spanning.assert_same_rows()


@pytest.mark.conforms("C-204", "C-209")
@pytest.mark.parametrize("point", ["register-applied", "register-committed"] if ALL else ["register-applied"])
def test_taking_a_lake_up_killed_at_any_step_is_done_by_the_next(spanning: Spanning, point: str) -> None:
    spanning.tier()
    spanning.tier()
    unregister_spanning(spanning)
    kill_lifecycle(spanning, point, "register", adopt_lake=True)
    sweep(spanning)
    assert adopt_lake(spanning).already == (point == "register-committed")
    spanning.assert_same_rows()
    write_everywhere(spanning, 1)
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-203", "C-209")
@pytest.mark.parametrize("point", UNREGISTER)
def test_an_unregistration_killed_at_any_step_loses_nothing_and_is_finished_by_the_next(
    spanning: Spanning, point: str
) -> None:
    """History goes back into the heap and the lake goes: the worst moment to die at."""
    spanning.tier()
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (20, 150, 270, 390) returning *")
    spanning.fold()
    kill_lifecycle(spanning, point, "unregister", restore_heap=True, drop_lake=True)
    if point in ("restore-filled", "unregister-forgotten", "unregister-restored"):
        spanning.assert_same_rows()
        write_history(spanning)
        assert unregister_spanning(spanning, restore_heap=True, drop_lake=True).was_registered
    assert_heap_is_twin(spanning)
    assert not unregister_spanning(spanning, restore_heap=True, drop_lake=True).was_registered
    sweep(spanning)
    assert lakes(spanning) == set()
    write_heap_and_twin(spanning, "update events set v = v + 1 where id % 7 = 0")
    assert_heap_is_twin(spanning)


def test_an_operation_that_committed_before_a_crash_is_published_before_the_table_is_left(spanning: Spanning) -> None:
    """Else the janitor would take files from a lake that holds the only copy of what is in them."""
    kill_at(spanning, "committed")
    unregister(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark)
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]
    adopt_lake(spanning)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-204", "C-208")
@pytest.mark.parametrize("point", ("sealed", "copied", "written", "committed", "published") if ALL else ("committed",))
def test_a_partition_that_is_taken_up_is_there_once_whatever_is_killed(
    make_spanning: Callable[..., Spanning], point: str
) -> None:
    """February was changed while nobody was registered: its rows leave the lake and come anew in one commit."""
    spanning = make_spanning(keep_heap=True, lake_partition="year")
    spanning.tier()
    unregister_spanning(spanning)
    write_heap_and_twin(spanning, "delete from events where id in (150, 151)")
    write_heap_and_twin(spanning, "update events set v = v + 7 where id between 160 and 170")
    adopt_lake(spanning)
    kill_at(spanning, point)
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (20, 155, 165, 300)")
    spanning.tier()
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert_every_file_is_known(spanning)
    lake = spanning.spark().sql("select count(*), sum(v) from thermocline.public.events").collect()
    twin = spanning.twin.execute("select count(*), sum(v) from events where ts < '2026-04-01 00:00+00'").fetchall()
    assert [tuple(row) for row in lake] == twin
