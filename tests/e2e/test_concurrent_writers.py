"""Two sessions write the same rows through the seam: both changes hold, or one of them is told to run again; none is
lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.e2e.concurrent_sessions import race
from tests.twin import Spanning, run
from tests.twin_transaction import spanning_module

from thermocline.runtime.postgres_server import PostgresServer

LEVELS = ["read committed", "repeatable read", "serializable"]
TIERS = {"cold": 0, "hot": 380}


@pytest.fixture(scope="module")
def tiered(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """Rows 1 to 359 lie in the lake, 360 to 400 in the heap."""
    with spanning_module(postgres, template, tmp_path_factory.mktemp("events")) as spanning:
        spanning.tier()
        yield spanning


@pytest.fixture
def pair(tiered: Spanning) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    one, two = tiered.session(), tiered.session()
    yield one, two
    for conn in (one, two):
        conn.rollback()


def _begin(level: str, *sessions: psycopg.Connection[Any]) -> None:
    for conn in sessions:
        conn.execute(f"set transaction isolation level {level}".encode())


def _value(spanning: Spanning, key: int) -> Any:
    return spanning.query(f"select v from events where id = {key}")


@pytest.mark.conforms("C-101")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("tier", TIERS)
def test_two_increments_at_once_are_both_kept_or_one_runs_again(
    tiered: Spanning, pair: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], tier: str, level: str
) -> None:
    key = TIERS[tier] + 1 + LEVELS.index(level)
    ((before,),) = _value(tiered, key)
    one, two = pair
    _begin(level, one, two)
    statement = f"update events set v = v + 1 where id = {key}"
    assert run(one, statement).tag == "UPDATE 1"
    state = race(two, statement, one)
    assert state in ("00000", "40001")
    two.commit()
    assert _value(tiered, key) == [(before + (2 if state == "00000" else 1),)]


@pytest.mark.conforms("C-101")
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("late", ["update events set v = v + 1 where id = {}", "delete from events where id = {}"])
def test_a_writer_whose_snapshot_is_older_than_another_change_runs_again(
    tiered: Spanning, pair: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], tier: str, level: str, late: str
) -> None:
    key = TIERS[tier] + 5
    one, two = pair
    _begin(level, one, two)
    two.execute("select count(*) from events").fetchall()
    ((before,),) = _value(tiered, key)
    one.execute(f"update events set v = v + 1 where id = {key}".encode())
    one.commit()
    assert run(two, late.format(key)).state == "40001"
    assert _value(tiered, key) == [(before + 1,)]


@pytest.mark.conforms("C-101")
@pytest.mark.parametrize("tier", TIERS)
def test_an_update_of_a_row_that_another_session_moved_to_another_key_is_not_lost(
    tiered: Spanning, pair: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], tier: str
) -> None:
    key = TIERS[tier] + 6
    one, two = pair
    one.execute(f"update events set id = id + 5000 where id = {key}".encode())
    assert race(two, f"update events set v = v + 1 where note = 'row {key}'", one) == "40001"
    assert _value(tiered, key + 5000) == [(key,)]
    assert run(two, f"update events set v = v + 1 where note = 'row {key}'").tag == "UPDATE 1"
    two.commit()
    assert _value(tiered, key + 5000) == [(key + 1,)]


@pytest.mark.conforms("C-101")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_two_sessions_delete_is_gone_once(
    tiered: Spanning, pair: tuple[psycopg.Connection[Any], psycopg.Connection[Any]], tier: str, level: str
) -> None:
    key = TIERS[tier] + 7 + LEVELS.index(level)
    one, two = pair
    _begin(level, one, two)
    one.execute(f"delete from events where id = {key}".encode())
    assert race(two, f"delete from events where id = {key}", one) in ("00000", "40001")
    assert _value(tiered, key) == []


@pytest.mark.conforms("C-049", "C-101")
def test_two_updates_onto_one_new_cold_key_leave_no_row_lost(
    tiered: Spanning, pair: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
) -> None:
    """One is refused: of two rows that want the same key, none may vanish under the other."""
    one, two = pair
    moment = "'2026-01-05 00:00+00'"
    one.execute(f"update events set id = 7000, ts = {moment} where id = 21".encode())
    state = race(two, f"update events set id = 7000, ts = {moment} where id = 22", one)
    two.commit()
    assert state in ("23505", "40001")
    assert tiered.query("select count(*) from events where id in (21, 22, 7000)") == [(2,)]


@pytest.mark.conforms("C-101")
@pytest.mark.parametrize("tier", TIERS)
def test_many_increments_from_four_sessions_add_up(tiered: Spanning, tier: str) -> None:
    key = TIERS[tier] + 15
    ((before,),) = _value(tiered, key)
    done = []

    def add() -> None:
        conn = tiered.session(autocommit=True)
        for _ in range(10):
            while run(conn, f"update events set v = v + 1 where id = {key}").tag != "UPDATE 1":
                pass
            done.append(1)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 40
    assert _value(tiered, key) == [(before + 40,)]


def test_a_delete_does_not_follow_a_hot_row_whose_key_changes_at_the_same_moment(
    tiered: Spanning, pair: tuple[psycopg.Connection[Any], psycopg.Connection[Any]]
) -> None:
    """A limit, in docs/limits.md: a trigger cannot tell a row that moved from one that was deleted."""
    one, two = pair
    one.execute("update events set id = id + 5000 where id = 396")
    assert race(two, "delete from events where note = 'row 396'", one) == "00000"
    two.commit()
    assert tiered.query("select id from events where note = 'row 396'") == [(5396,)]
