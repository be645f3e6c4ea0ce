"""Long readers: a transaction opened before rows tier, fold and expire reads the same rows to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.e2e.eager_pass import eager_pass
from tests.maintenance_ops import run_expire_snapshots
from tests.twin import Spanning

from thermocline.runtime.pg import connect_as_typed as connect

ALL = "select * from events order by id, ts"


def _opened(spanning: Spanning, level: str) -> psycopg.Connection[Any]:
    """Open a transaction that has its snapshot and has not read the table yet."""
    reader = spanning.session()
    reader.execute(f"set transaction isolation level {level}".encode())
    reader.execute("select count(*) from pg_class")
    return reader


@pytest.mark.conforms("C-060", "C-068", "C-131")
@pytest.mark.parametrize("level", ["repeatable read, read only", "serializable"])
def test_a_reader_older_than_a_move_and_its_folds_reads_the_same_rows_and_holds_back_the_drop_alone(
    make_spanning: Callable[..., Spanning], level: str
) -> None:
    spanning = make_spanning(lake_retention="30d")
    before = spanning.query(ALL)
    reader = _opened(spanning, level)
    spanning.tier()
    assert reader.execute(ALL.encode()).fetchall() == before
    second = _opened(spanning, level)
    now = spanning.query(ALL)
    for number in range(3):
        spanning.both(f"update events set v = v + 1, note = 'again {number}' where id between 300 and 310")
        spanning.both(f"delete from events where id = {320 + number}")
        spanning.fold()
    spanning.both(
        "insert into events (id, ts, v) values (5001, '2026-03-20 00:00+00', 1), (5002, '2026-04-25 00:00+00', 2)"
    )
    report = spanning.tier()
    assert (report.dropped, bool(report.deferred)) == ([], True)
    with eager_pass(spanning) as context:
        run_expire_snapshots(context)
    assert reader.execute(ALL.encode()).fetchall() == before
    assert second.execute(ALL.encode()).fetchall() == now
    ((xid,),) = reader.execute("select pg_current_xact_id_if_assigned() is null").fetchall()
    assert xid
    reader.rollback()
    second.rollback()
    spanning.tier()
    spanning.tier()
    with connect(spanning.dsn, autocommit=True) as conn:
        gone = conn.execute("select count(*) from thermocline.partitions where state = 'dropped'").fetchall()
        ((line,),) = conn.execute("select thermocline.key_timestamptz(r)::text from thermocline.cutline").fetchall()
    assert gone == [(3,)]
    spanning.twin.execute("delete from events where ts < %s::timestamptz", [line])
    spanning.assert_same_rows()


@pytest.mark.conforms("C-069", "C-070")
def test_a_cursor_and_a_prepared_statement_go_on_over_a_move(spanning: Spanning) -> None:
    """The cursor's rows are those of its own snapshot; the statement prepared before the move sees each new state."""
    session = spanning.session(autocommit=True)
    session.execute("prepare counted (bigint) as select count(*), sum(v) from events where id > $1")
    session.execute("set plan_cache_mode = force_generic_plan")
    reader = _opened(spanning, "repeatable read")
    expected = spanning.query("select count(*), sum(v) from events where id > 5")
    assert session.execute("execute counted (5)").fetchall() == expected
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (7, 390)")
    spanning.fold()
    assert (
        reader.execute("select count(*), sum(e.v) from events e join events x using (id, ts) where id > 5").fetchall()
        == expected
    )
    assert session.execute("execute counted (5)").fetchall() == spanning.both(
        "select count(*), sum(v) from events where id > 5"
    )
    reader.rollback()
