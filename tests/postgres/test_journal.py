"""The journal's guards, each by itself: whoever lost the table, looked at another S, or finished the op already changes
nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS
from tests.postgres.journal_ops import begin_op, publish_op

from thermocline.catalog import journal
from thermocline.catalog.safety import Owner
from thermocline.core.observation import CutLine
from thermocline.errors import AnotherWriter, Fenced, Paused
from thermocline.ops.admin.pause import pause
from thermocline.runtime.pg import Connection

JANUARY, FEBRUARY, MARCH = 1_767_225_600_000_000, 1_769_904_000_000_000, 1_772_323_200_000_000
EVERYTHING = (
    "select * from thermocline.cutline",
    "select * from thermocline.op_log order by op_id",
    "select * from thermocline.published order by snapshot_id",
    "select * from thermocline.partitions order by lo",
    "select * from thermocline.staged_files order by path",
)


@pytest.fixture
def events(shop: Shop) -> Shop:
    """public.events by month, its first snapshot published by a fold, its seam ready for T at March."""
    shop.run(*EVENTS)
    shop.register(premake=0)
    shop.run(f"update thermocline.cutline set seam_line = {MARCH}")
    for name, lo, hi in (("e1", JANUARY, FEBRUARY), ("e2", FEBRUARY, MARCH)):
        shop.run(
            f"select thermocline.capture_partition(1, 'public.{name}'::regclass)",
            "insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, seal)"
            f" select 1, 'public', '{name}', tgrelid, {lo}, {hi}, 'sealing', oid from pg_trigger"
            f" where tgrelid = 'public.{name}'::regclass and tgname = 'thermocline_capture'",
        )
    publish_op(shop.conn, begin_op(shop.conn, kind="fold"), snapshot=100)
    return shop


def _everything(shop: Shop) -> list[list[tuple[Any, ...]]]:
    return [shop.rows(query) for query in EVERYTHING]


Write = Callable[[Connection, journal.Op], object]
WRITES: dict[str, Write] = {
    "the seam's line": lambda conn, op: journal.raise_seam_line(conn, 1, op.fence, MARCH + 1),
    "the seam's floor": lambda conn, op: journal.raise_seam_floor(conn, 1, op.fence, JANUARY),
    "another intent": lambda conn, op: journal.begin(conn, replace(op, op_id=uuid.uuid4()), "test"),
    "a phase": lambda conn, op: journal.note_phase(conn, op, "committed", snapshot=101),
    "a publication": lambda conn, op: publish_op(conn, op, snapshot=101),
    "a publication without a snapshot": lambda conn, op: publish_op(conn, op, snapshot=None),
    "a purge": lambda conn, op: journal.note_purged(conn, op.op_id, op.fence),
}


@pytest.mark.conforms("C-206")
@pytest.mark.parametrize("what", WRITES)
def test_a_writer_with_an_older_token_changes_nothing(events: Shop, what: str) -> None:
    op = begin_op(events.conn, t=FEBRUARY)
    marked: list[int] = []
    journal.claim(events.session(), 1)
    before = _everything(events)
    with pytest.raises(Fenced):
        WRITES[what](events.conn, op)
    with pytest.raises(Fenced):
        publish_op(events.conn, op, snapshot=101, mark=lambda: marked.append(1))
    assert (_everything(events), marked) == (before, [])


@pytest.mark.conforms("C-206")
@pytest.mark.parametrize("what", [what for what in WRITES if what not in ("another intent", "the seam's floor")])
def test_a_writer_with_the_newest_token_is_let_through(events: Shop, what: str) -> None:
    op = begin_op(events.conn, t=FEBRUARY)
    before = _everything(events)
    WRITES[what](events.conn, op)
    assert _everything(events) != before


def test_an_op_is_begun_and_published_only_on_the_snapshot_it_looked_at(events: Shop) -> None:
    op = begin_op(events.conn, t=FEBRUARY)
    for base in (99, None):
        with pytest.raises(Fenced):
            journal.begin(events.conn, replace(op, op_id=uuid.uuid4(), base=base), "test")
        with pytest.raises(Fenced):
            publish_op(events.conn, replace(op, base=base), snapshot=101)
    assert events.rows("select s, t from thermocline.cutline") == [(100, JANUARY)]
    publish_op(events.conn, op, snapshot=101)
    assert events.rows("select s, t from thermocline.cutline") == [(101, FEBRUARY)]


def test_neither_the_cut_line_nor_the_seams_literals_move_back(events: Shop) -> None:
    publish_op(events.conn, begin_op(events.conn, t=FEBRUARY), snapshot=101)
    late = begin_op(events.conn, t=JANUARY)
    before = _everything(events)
    with pytest.raises(Fenced):
        publish_op(events.conn, late, snapshot=102)
    with pytest.raises(Fenced):
        journal.raise_seam_line(events.conn, 1, late.fence, MARCH - 1)
    journal.raise_seam_floor(events.conn, 1, late.fence, FEBRUARY)
    with pytest.raises(Fenced):
        journal.raise_seam_floor(events.conn, 1, late.fence, JANUARY)
    assert events.rows("select seam_line, seam_floor, t from thermocline.cutline") == [(MARCH, FEBRUARY, FEBRUARY)]
    assert _everything(events)[1:] == before[1:]


def test_the_cut_line_never_passes_the_line_of_the_seam(events: Shop) -> None:
    op = begin_op(events.conn, t=MARCH + 1)
    with pytest.raises(Fenced):
        publish_op(events.conn, op, snapshot=101)
    assert events.rows("select s, t from thermocline.cutline") == [(100, JANUARY)]


@pytest.mark.parametrize("end", ["published", "abandoned"])
def test_an_op_that_is_finished_stays_as_it_ended(events: Shop, end: str) -> None:
    op = begin_op(events.conn, t=FEBRUARY)
    if end == "published":
        publish_op(events.conn, op, snapshot=101)
    else:
        journal.abandon(events.conn, op, "did not commit")
    before = _everything(events)
    cut = journal.read_cutline(events.conn, 1)
    with pytest.raises(Fenced):
        journal.note_phase(events.conn, op, "committed", snapshot=102)
    with pytest.raises(Fenced):
        publish_op(events.conn, replace(op, base=cut.s), snapshot=102)
    journal.abandon(events.conn, op, "too late")
    assert _everything(events) == before
    assert journal.read_unfinished(events.conn, 1, op.fence) == ()


def test_a_publication_takes_the_partitions_below_t_and_the_files_it_names(events: Shop) -> None:
    op, other = begin_op(events.conn, t=FEBRUARY), uuid.uuid4()
    for path, op_id in (("/taken", op.op_id), ("/retried", op.op_id), ("/theirs", other)):
        events.conn.execute(
            "insert into thermocline.staged_files (path, table_id, op_id) values (%s, 1, %s)", [path, op_id]
        )
    assert publish_op(events.conn, op, snapshot=101, paths=("/taken", "/theirs")) == ("e1",)
    assert events.rows("select name, state, tiered_xid is not null from thermocline.partitions order by lo") == [
        ("e1", "tiered", True),
        ("e2", "sealing", False),
    ]
    assert events.rows("select path from thermocline.staged_files order by path") == [("/retried",), ("/theirs",)]
    assert events.rows("select snapshot_id, superseded_xid is null from thermocline.published order by 1") == [
        (100, False),
        (101, True),
    ]


def test_a_snapshot_is_superseded_once_by_the_publication_that_replaced_it(events: Shop) -> None:
    publish_op(events.conn, begin_op(events.conn), snapshot=101)
    first = events.rows("select superseded_xid from thermocline.published where snapshot_id = 100")
    publish_op(events.conn, begin_op(events.conn), snapshot=102)
    assert events.rows("select superseded_xid from thermocline.published where snapshot_id = 100") == first
    rows = events.rows(
        "select p.superseded_xid = n.published_xid from thermocline.published p, thermocline.published n"
        " where (p.snapshot_id, n.snapshot_id) in ((100, 101), (101, 102))"
    )
    assert rows == [(True,), (True,)]


def test_only_a_fold_moves_the_mark_that_writers_compare(events: Shop) -> None:
    before = events.rows("select folding_xid from thermocline.cutline")
    publish_op(events.conn, begin_op(events.conn), snapshot=101)
    assert events.rows("select folding_xid from thermocline.cutline") == before
    op = begin_op(events.conn, kind="fold")
    publish_op(events.conn, op, snapshot=102)
    assert events.rows(
        "select folding_xid = (select max(published_xid) from thermocline.published) from thermocline.cutline"
    ) == [(True,)]
    assert op.op_id in {op_id for op_id, _ in journal.read_unpurged(events.conn, 1)}
    journal.note_purged(events.conn, op.op_id, op.fence)
    assert op.op_id not in {op_id for op_id, _ in journal.read_unpurged(events.conn, 1)}


def test_unfinished_ops_are_those_of_the_table_that_are_no_pass(events: Shop) -> None:
    op = begin_op(events.conn, t=FEBRUARY)
    events.run(
        "insert into thermocline.op_log (op_id, table_id, kind, phase, fence, worker)"
        " values (gen_random_uuid(), 1, 'maintain', 'intent', 0, 'w')"
    )
    journal.note_phase(events.conn, op, "written", counters={"rows": 5})
    assert [(found.op_id, found.t, found.base) for found in journal.read_unfinished(events.conn, 1, op.fence)] == [
        (op.op_id, FEBRUARY, 100)
    ]


def test_one_session_at_a_time_has_the_tables_lock(events: Shop) -> None:
    other = events.session()
    with journal.table_lock(events.conn, 1, "public.events"):
        with (
            pytest.raises(AnotherWriter, match=r"working on public\.events"),
            journal.table_lock(other, 1, "public.events"),
        ):
            pass
        with journal.table_lock(other, 2, "public.others"):
            pass
    with journal.table_lock(other, 1, "public.events"):
        pass


def test_each_claim_has_a_token_of_its_own_and_a_paused_table_gives_none(events: Shop) -> None:
    first, second = journal.claim(events.conn, 1), journal.claim(events.session(), 1)
    assert second == CutLine(t=first.t, s=first.s, seam_line=first.seam_line, fence=first.fence + 1, r=first.r)
    pause(events.dsn, None)
    with pytest.raises(Paused):
        journal.claim(events.conn, 1)
    assert journal.claim(events.conn, 1, even_paused=True).fence == second.fence + 1


GRACE = 3600.0


@pytest.mark.parametrize(
    ("phase", "staged_ago", "changed_ago", "is_stray"),
    [
        ("intent", 7200, 7200, False),
        ("written", 7200, 7200, False),
        ("committed", 7200, 7200, False),
        ("abandoned", 7200, 7200, True),
        ("published", 7200, 7200, True),
        ("abandoned", 7200, 60, False),
        ("abandoned", 60, 7200, False),
        (None, 7200, 0, True),
        (None, 60, 0, False),
    ],
)
def test_a_staged_file_is_stray_once_its_op_is_finished_and_both_are_past_the_grace_period(
    events: Shop, phase: str | None, staged_ago: int, changed_ago: int, is_stray: bool
) -> None:
    op_id = uuid.uuid4()
    if phase is not None:
        events.conn.execute(
            "insert into thermocline.op_log (op_id, table_id, kind, phase, fence, worker, changed_at)"
            " values (%s, 1, 'tier', %s, 0, 'w', now() - make_interval(secs => %s))",
            [op_id, phase, changed_ago],
        )
    events.conn.execute(
        (
            "insert into thermocline.staged_files (path, table_id, op_id, at) values ('/file', 1, %s, now() - "
            "make_interval(secs => %s))"
        ),
        [op_id, staged_ago],
    )
    assert journal.read_stray_files(events.conn, Owner(table_id=1), GRACE) == (("/file",) if is_stray else ())
    pause(events.dsn, None)
    assert journal.read_stray_files(events.conn, Owner(table_id=1), GRACE) == ()


def test_a_lock_that_its_session_lost_is_no_error_at_the_end(events: Shop) -> None:
    with journal.table_lock(events.conn, 1, "public.events"):
        events.conn.execute("select pg_advisory_unlock_all()")
    with journal.table_lock(events.session(), 1, "public.events"):
        pass
