"""The kill matrix of folding: SIGKILL between every two steps, writes before the restart, then equal to the twin and
nothing left over."""

from __future__ import annotations

import signal

import psycopg
import pytest
from tests.fault_points import patch_fault_points
from tests.faults.kills import assert_all_folded, assert_nothing_left_over, kill_at, write_everywhere
from tests.faults.points import FOLD
from tests.twin import Spanning

from thermocline.errors import Fenced, LostRace
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.mark.conforms("C-133", "C-208", "C-210")
@pytest.mark.parametrize("point", FOLD)
def test_a_fold_killed_at_any_step_resumes_and_loses_nothing(spanning: Spanning, point: str) -> None:
    spanning.tier()
    write_everywhere(spanning, 1)
    assert kill_at(spanning, point, "fold_child") == -signal.SIGKILL
    spanning.assert_same_rows()
    write_everywhere(spanning, 2)
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
    assert_all_folded(spanning)
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


@pytest.mark.conforms("C-210")
def test_a_fold_killed_after_its_commit_is_published_by_the_tiering_that_follows(spanning: Spanning) -> None:
    spanning.tier()
    write_everywhere(spanning, 1)
    assert kill_at(spanning, "fold-committed", "fold_child") == -signal.SIGKILL
    assert any("which had committed before a crash" in note for note in spanning.tier().notes)
    spanning.assert_same_rows()
    spanning.fold()
    assert_all_folded(spanning)
    assert_nothing_left_over(spanning)


@pytest.mark.conforms("C-206")
def test_a_fold_that_was_overtaken_can_publish_nothing(spanning: Spanning, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first fold is overtaken (its lock lost, the table claimed by another) just before its commit, and wakes up
    afterwards."""
    spanning.tier()
    write_everywhere(spanning, 1)

    def overtake(point: str) -> None:
        if point != "fold-written":
            return
        patch_fault_points(monkeypatch, lambda _: None)
        with connect(spanning.dsn, autocommit=True) as conn:
            conn.execute(
                "select pg_terminate_backend(l.pid) from pg_locks l where l.locktype = 'advisory' and l.pid "
                "<> pg_backend_pid()"
                " and l.database = (select oid from pg_database where datname = current_database())"
            )
        write_everywhere(spanning, 2)
        assert spanning.fold().commits == 1

    patch_fault_points(monkeypatch, overtake)
    with pytest.raises((LostRace, Fenced, psycopg.OperationalError)):
        spanning.fold()
    spanning.assert_same_rows()
    spanning.fold()
    assert_all_folded(spanning)
    assert_nothing_left_over(spanning)
