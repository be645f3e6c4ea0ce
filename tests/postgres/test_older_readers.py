"""Who may still need what a transaction replaced: every snapshot that cannot see it, to the very transaction, wherever
it is held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS
from tests.postgres.journal_ops import begin_op, publish_op

from thermocline.catalog.safety import Owner, read_protected_snapshots
from thermocline.errors.maintenance import SafetyInputsUnreadable
from thermocline.runtime.pg import Connection
from thermocline.seam.heap.floor import plan_floor
from thermocline.seam.heap.lost_captures import read_lost_captures, trust_captures
from thermocline.seam.heap.older_readers import why_not_drop, why_older_readers
from thermocline.seam.objects import CAPTURE_TRIGGER


@pytest.fixture
def events(shop: Shop) -> Shop:
    """public.events by month, registered, with its first snapshot published."""
    shop.run(*EVENTS)
    shop.register(premake=0)
    publish_op(shop.conn, begin_op(shop.conn), snapshot=100)
    return shop


@contextmanager
def _reading(shop: Shop) -> Iterator[Connection]:
    """A session whose snapshot is taken now and held."""
    reader = shop.session(autocommit=False)
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select 1")
    yield reader
    reader.rollback()


def _next_transaction(shop: Shop) -> str:
    ((xid,),) = shop.rows("select pg_current_xact_id()::text")
    return str(xid)


def test_a_snapshot_taken_right_before_a_transaction_may_need_what_it_replaced(shop: Shop) -> None:
    """Its oldest transaction is the very one that comes next."""
    with _reading(shop) as reader:
        xid = _next_transaction(shop)
        assert "may still read it" in str(why_older_readers(shop.conn, xid, 0))
        assert f"session {reader.info.backend_pid}" in str(why_older_readers(shop.conn, xid, 0))
    assert why_older_readers(shop.conn, xid, 0) is None


def test_a_snapshot_taken_after_a_transaction_needs_nothing_of_before(shop: Shop) -> None:
    xid = _next_transaction(shop)
    with _reading(shop):
        assert why_older_readers(shop.conn, xid, 0) is None


def test_a_transaction_under_way_elsewhere_in_the_cluster_holds_nothing_back(shop: Shop, bare_database: str) -> None:
    other = shop.session(bare_database, autocommit=False)
    other.execute("set transaction isolation level repeatable read")
    other.execute("select 1")
    assert why_older_readers(shop.conn, _next_transaction(shop), 0) is None


def test_who_cannot_see_other_sessions_lets_nothing_go(shop: Shop) -> None:
    shop.run("create role blind_worker")
    try:
        shop.run("set role blind_worker")
        assert "GRANT pg_read_all_stats" in str(why_older_readers(shop.conn, "1", 0))
        with pytest.raises(SafetyInputsUnreadable):
            read_protected_snapshots(shop.conn, Owner(table_id=1), None, 0)
    finally:
        shop.run("reset role", "drop role blind_worker")


def test_a_partition_waits_for_readers_and_for_its_capture_trigger(events: Shop) -> None:
    _seal_and_publish(events)
    assert why_not_drop(events.conn, 1, _oid(events, "public.e1"), 0) is None
    with _reading(events) as reader:
        _seal_and_publish(events, "e2")
        assert f"session {reader.info.backend_pid}" in str(why_not_drop(events.conn, 1, _oid(events, "public.e2"), 0))
    assert why_not_drop(events.conn, 1, _oid(events, "public.e2"), 0) is None
    for change in (
        f"disable trigger {CAPTURE_TRIGGER}",
        f"enable trigger {CAPTURE_TRIGGER}",
        f"enable replica trigger {CAPTURE_TRIGGER}",
    ):
        events.run(f"alter table public.e2 {change}")
        reason = str(why_not_drop(events.conn, 1, _oid(events, "public.e2"), 0))
        assert "capture trigger is gone or disabled" in reason
        first, then = f"ENABLE ALWAYS TRIGGER {CAPTURE_TRIGGER} first", "then run `thermocline verify --repair`"
        assert -1 < reason.find(first) < reason.find(then), (
            "a change between a repair and the enabling would slip past both"
        )
    events.run(f"alter table public.e2 enable always trigger {CAPTURE_TRIGGER}")
    reason = str(why_not_drop(events.conn, 1, _oid(events, "public.e2"), 0))
    assert "run `thermocline verify --repair`" in reason
    assert "ENABLE" not in reason, "the trigger fires always"
    assert why_not_drop(events.conn, 1, _oid(events, "public.e1"), 0) is None


def test_a_capture_disabled_late_in_a_long_transaction_was_lost_when_it_was_disabled(events: Shop) -> None:
    """Not when the transaction began: a comparison that ran in between would be taken for one that came after it."""
    _seal_and_publish(events)
    operator = events.session(autocommit=False)
    operator.execute("select 1")
    ((compared,),) = events.rows("select clock_timestamp()")
    operator.execute(f"alter table public.e1 disable trigger {CAPTURE_TRIGGER}".encode())
    operator.commit()
    ((lost,),) = events.rows("select capture_lost_at from thermocline.partitions where name = 'e1'")
    assert lost > compared


def test_a_capture_disabled_before_a_comparison_and_committed_after_it_stays_lost(events: Shop) -> None:
    _seal_and_publish(events)
    for change in ("disable", "enable always"):
        events.run(f"alter table public.e1 {change} trigger {CAPTURE_TRIGGER}")
    operator = events.session(autocommit=False)
    operator.execute(f"alter table public.e1 disable trigger {CAPTURE_TRIGGER}".encode())
    watched = read_lost_captures(events.conn, 1)
    (part,) = watched.partitions
    operator.commit()
    trust_captures(events.conn, 1, watched, [(part.lo, part.hi)])
    ((lost,),) = events.rows("select capture_lost_at from thermocline.partitions where name = 'e1'")
    assert lost > part.lost_at
    events.run(f"alter table public.e1 enable always trigger {CAPTURE_TRIGGER}")
    trust_captures(events.conn, 1, read_lost_captures(events.conn, 1), [(part.lo, part.hi)])
    assert events.rows("select capture_lost_at from thermocline.partitions where name = 'e1'") == [(None,)]


def test_the_floor_of_the_seam_waits_for_readers_of_an_older_t(events: Shop) -> None:
    ((t,),) = events.rows("select t from thermocline.cutline")
    events.run(
        f"update thermocline.cutline set seam_line = {t + 10}",
        "select thermocline.capture_partition(1, 'public.e1'::regclass)",
    )
    with _reading(events):
        publish_op(events.conn, begin_op(events.conn, t=t + 10), snapshot=101)
        assert plan_floor(events.conn, 1, 0) is None
    assert plan_floor(events.conn, 1, 0) == t + 10


def test_a_superseded_snapshot_is_needed_while_somebody_cannot_see_what_superseded_it(events: Shop) -> None:
    def needed() -> dict[int, str]:
        return read_protected_snapshots(events.conn, Owner(table_id=1), None, 0).snapshots

    assert needed() == {100: "published"}
    op = begin_op(events.conn)
    with _reading(events) as reader:  # whose oldest transaction is the very publication that comes next
        publish_op(events.conn, op, snapshot=101)
        assert needed().keys() == {100, 101}
        assert f"reader {reader.info.backend_pid}" in needed()[100]
        with _reading(events):
            publish_op(events.conn, begin_op(events.conn), snapshot=102)
            assert needed().keys() == {100, 101, 102}
        assert needed().keys() == {100, 101, 102}, "the older reader's transaction is older than both"
    assert needed() == {102: "published"}


def test_the_base_and_the_result_of_an_unfinished_op_are_needed(events: Shop) -> None:
    op = begin_op(events.conn)
    publish_op(events.conn, op, snapshot=101)
    later = begin_op(events.conn)
    events.conn.execute(
        "update thermocline.op_log set base_snapshot = 100, result_snapshot = 102 where op_id = %s", [later.op_id]
    )
    needed = read_protected_snapshots(events.conn, Owner(table_id=1), None, 0).snapshots
    assert needed.keys() == {100, 101, 102}
    assert str(later.op_id) in needed[100]
    assert read_protected_snapshots(events.conn, Owner(table_id=1), later.op_id, 0).snapshots.keys() == {101}, (
        "the asking pass itself is no one else"
    )
    events.run("update thermocline.op_log set phase = 'abandoned' where phase = 'intent'")
    assert read_protected_snapshots(events.conn, Owner(table_id=1), None, 0).snapshots.keys() == {101}


def test_a_pin_keeps_its_snapshot_until_it_expires(events: Shop) -> None:
    ((pin,),) = events.rows(
        "insert into thermocline.read_pins (table_id, snapshot_id, metadata_location, t, holder, expires_at)"
        " values (1, 77, '/lake/7.metadata.json', 0, 'reader', clock_timestamp() + interval '1 hour') returning id"
    )
    needs = read_protected_snapshots(events.conn, Owner(table_id=1), None, 0)
    assert (needs.snapshots[77], needs.metadata_files) == (f"pin {pin} of reader", frozenset({"/lake/7.metadata.json"}))
    events.run("update thermocline.read_pins set expires_at = clock_timestamp() - interval '1 second'")
    needs = read_protected_snapshots(events.conn, Owner(table_id=1), None, 0)
    assert 77 not in needs.snapshots
    assert needs.metadata_files == frozenset()


def _oid(shop: Shop, name: str) -> int:
    ((oid,),) = shop.rows(f"select '{name}'::regclass::oid")
    return int(oid)


def _seal_and_publish(shop: Shop, name: str = "e1") -> None:
    """A partition as tiering leaves it: captured, and published below T."""
    ((function,),) = shop.rows("select oid::regproc from pg_proc where proname = 'public__events_capture'")
    shop.run(
        (
            f"create trigger {CAPTURE_TRIGGER} after insert or update or delete on public.{name} for each row "
            f"execute function {function}()"
        ),
        f"alter table public.{name} enable always trigger {CAPTURE_TRIGGER}",
        "insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, seal)"
        f" select 1, 'public', '{name}', g.tgrelid, 0, (select t from thermocline.cutline), 'tiering', g.oid "
        "from pg_trigger g"
        f" where g.tgrelid = 'public.{name}'::regclass and g.tgname = '{CAPTURE_TRIGGER}'",
    )
    publish_op(shop.conn, begin_op(shop.conn), snapshot=None)


def test_an_unfinished_op_of_another_table_holds_nothing_back(events: Shop) -> None:
    begin_op(events.conn)
    assert read_protected_snapshots(events.conn, Owner(lake_id=5), None, 0).snapshots == {}
