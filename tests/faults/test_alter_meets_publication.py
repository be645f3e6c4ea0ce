"""An ALTER TABLE concurrent with a publication or a reader of the seam: one waits for the other, and none fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from tests.fault_points import patch_fault_points
from tests.twin import Spanning

from thermocline.runtime.pg import connect_as_typed as connect

WAITS = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = %s and datname "
    "= current_database()"
)
ALTER = "alter table {}.events add column extra integer default 7"


PAUSE = """
create function public.pause() returns event_trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(4711);
end $$;
create event trigger a_pause on ddl_command_end when tag in ('ALTER TABLE') execute function public.pause();
"""


class Meeting:
    """An ALTER TABLE held between its locks on the heap and those on our catalog, until a publication waits too.

    Event triggers fire in the order of their names: `a_pause` before ours.
    """

    def __init__(self, spanning: Spanning) -> None:
        self.spanning = spanning
        self.watch = spanning.session(autocommit=True)
        self.holder = spanning.session()
        self.problems: list[str] = []
        self.threads: list[threading.Thread] = []

    def begin(self, publisher: str) -> None:
        """Return when the ALTER holds the heap's lock and waits; it is released once the publisher waits for it."""
        self.watch.execute(PAUSE.encode())
        self.holder.execute("select pg_advisory_xact_lock(4711)")
        self.alter()
        self.wait_for("meeting alter")
        self._start(lambda: self._let_go(publisher))

    def alter(self) -> None:
        self._start(self._alter)

    def end(self) -> None:
        for thread in self.threads:
            thread.join()
        assert self.problems == []

    def _start(self, work: Callable[[], object]) -> None:
        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def _let_go(self, publisher: str) -> None:
        self.wait_for(publisher)
        self.holder.rollback()

    def _alter(self) -> None:
        try:
            with connect(self.spanning.dsn, autocommit=True, application_name="meeting alter") as conn:
                conn.execute(ALTER.format("public").encode())
        except psycopg.Error as problem:
            self.problems.append(f"{problem.sqlstate}: {problem}")

    def wait_for(self, who: str) -> None:
        deadline = time.monotonic() + 60
        with connect(self.spanning.dsn, autocommit=True) as conn:
            while time.monotonic() < deadline:
                if conn.execute(WAITS, [who]).fetchone() != (0,):
                    return
                time.sleep(0.01)
        self.problems.append(f"{who} never waited")


def _at(monkeypatch: pytest.MonkeyPatch, point: str, act: Callable[[], None]) -> None:
    def once(reached: str) -> None:
        if reached == point:
            patch_fault_points(monkeypatch, lambda _: None)
            act()

    patch_fault_points(monkeypatch, once)


def test_an_alter_that_meets_a_folds_publication_is_followed_and_the_fold_is_done_again(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1000 where id between 10 and 20")
    spanning.both("delete from events where id = 30")
    meeting = Meeting(spanning)
    _at(monkeypatch, "fold-committed-noted", lambda: meeting.begin("thermocline fold"))
    report = spanning.fold()
    meeting.end()
    spanning.twin.execute(ALTER.format("twin").encode())
    assert any("nothing was marked as folded" in note for note in report.notes)
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from thermocline_delta.public__events where _folded is null") == [(12,)]
    spanning.fold()
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from thermocline_delta.public__events where _folded is null") == [(0,)]


def test_an_alter_that_meets_an_expiry_is_followed_and_the_rows_expire(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning = make_spanning(lake_retention="31d")
    spanning.tier()
    meeting = Meeting(spanning)
    _at(monkeypatch, "retain-committed", lambda: meeting.begin("thermocline tier"))
    report = spanning.tier()
    meeting.end()
    assert report.retention_line is not None
    spanning.twin.execute(ALTER.format("twin").encode())
    spanning.both("select count(*), sum(extra) from events where ts >= '2026-03-01 00:00+00'")
    assert spanning.query("select count(*) from events where ts < '2026-03-01 00:00+00'") == [(0,)]


def test_a_column_is_added_behind_a_reader_of_the_seam_and_not_across_it(spanning: Spanning) -> None:
    """The reader has the view and is about to lock the heap. The ALTER waits for the view first, so the heap is free
    for the reader."""
    spanning.tier()
    meeting, reader = Meeting(spanning), spanning.session()
    reader.execute("comment on view public_all.events is 'the view alone is locked'")
    meeting.alter()
    meeting.wait_for("meeting alter")
    assert reader.execute("select count(*) from events").fetchall() == [(400,)]
    reader.commit()
    meeting.end()
    spanning.twin.execute(ALTER.format("twin").encode())
    spanning.assert_same_rows()
