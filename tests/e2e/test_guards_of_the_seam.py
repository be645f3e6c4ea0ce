"""Guards of the seam that one test each would miss: the bounds of T, marks of folds, the epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.cloned_tables import ClonableTable, make_clonable
from tests.e2e.concurrent_sessions import race
from tests.twin import Spanning, run

from thermocline.runtime.postgres_server import PostgresServer

T = "2026-04-01 00:00:00+00"
EPOCH = "select epoch from thermocline.cutline"


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    """January to March in the lake, April in the heap."""
    with make_clonable(postgres, template, tmp_path_factory.mktemp("guards")) as made:
        yield made


@pytest.fixture
def spanning(tiered: ClonableTable) -> Iterator[Spanning]:
    with tiered.clone() as made:
        yield made


@pytest.fixture
def folded(spanning: Spanning) -> Spanning:
    """A cold row corrected and folded; its correction stays in the delta, marked, because an older reader lives."""
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select 1")
    spanning.both("update events set note = 'corrected' where id = 17 returning *")
    spanning.both("delete from events where id = 18 returning id")
    assert spanning.fold().rows == 2
    assert spanning.query("select count(*) from thermocline_delta.public__events where _folded is not null") == [(2,)]
    return spanning


def test_rows_on_the_bounds_of_t_are_read_once(spanning: Spanning) -> None:
    spanning.both(
        f"insert into events (id, ts, v) values (9001, '{T}', 1), (9002, timestamptz '{T}' - interval '1 "
        "microsecond', 2),"
        f" (9003, timestamptz '{T}' + interval '1 microsecond', 3)"
    )
    for condition in (f"ts = '{T}'", f"ts < '{T}'", f"ts >= '{T}'", "id > 9000", "true"):
        assert spanning.both(f"select count(*), sum(v) from events where {condition}") != [(0, None)]
    spanning.assert_same_rows()


def test_a_folded_correction_that_is_kept_for_a_reader_is_read_from_the_lake_alone(folded: Spanning) -> None:
    folded.both("select id, note from events where id in (17, 18)")
    folded.assert_same_rows()


def test_a_folded_correction_that_changes_again_is_pending_again(folded: Spanning) -> None:
    folded.both("update events set note = 'again' where id = 17 returning *")
    folded.both("insert into events (id, ts, v) select 18, '2026-01-05 12:00+00', 1 returning *")
    folded.assert_same_rows()
    folded.fold()
    folded.assert_same_rows()


@pytest.mark.parametrize("change", ["update events set v = v + 1 where id = 17", "delete from events where id = 17"])
def test_a_cold_row_that_another_session_changes_at_this_moment_is_not_deleted_over_it(
    spanning: Spanning, change: str
) -> None:
    """Only the lake holds the row: there is no row lock to wait for, and no index entry of the row in which the two
    would meet."""
    one, two = spanning.session(), spanning.session()
    assert run(one, change).tag.endswith(" 1")
    assert race(two, "delete from events where id = 17", one) == psycopg.errors.SerializationFailure.sqlstate
    spanning.twin.execute(change.encode())
    spanning.assert_same_rows()


def test_a_cold_write_runs_again_when_the_epoch_moved_after_its_statement_began(
    make_spanning: Callable[..., Spanning],
) -> None:
    """The statement has its snapshot, and waits; rows expire; then it writes. It must not write by a cut-line that is
    gone."""
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    gate, outcome = spanning.session("public", autocommit=True), []
    gate.execute("select pg_advisory_lock(99)")
    writer = spanning.session(autocommit=True)
    waiting = "update events set v = v + 1 where id = 300 and (select pg_advisory_lock(99) is not null) returning id"
    thread = threading.Thread(target=lambda: outcome.append(run(writer, waiting)))
    thread.start()
    while not spanning.query("select 1 from pg_locks where locktype = 'advisory' and objid = 99 and not granted"):
        assert thread.is_alive()
    ((before,),) = spanning.query(EPOCH)
    assert spanning.tier().retention_line is not None
    assert spanning.query(EPOCH) == [(before + 1,)]
    gate.execute("select pg_advisory_unlock(99)")
    thread.join()
    assert outcome[0].state == psycopg.errors.SerializationFailure.sqlstate
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()


def test_an_expiry_raises_the_epoch(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    ((before,),) = spanning.query(EPOCH)
    assert spanning.tier().retention_line is not None
    assert spanning.query(EPOCH) == [(before + 1,)]
