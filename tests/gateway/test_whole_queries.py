"""Whole queries: a person asks the gateway about a spanning table, and gets what an ordinary table would give, byte for
byte."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import psycopg
import pytest
from tests.gateway import whole_battery
from tests.gateway.whole_lake import person, raw
from tests.twin import Spanning


def assert_same(
    lake: Spanning, statements: Sequence[str], *, engine: str, form: int = 0, ordered: bool = False
) -> None:
    lake.twin.execute("set timezone = 'UTC'")
    with person(lake, engine=engine) as conn:
        for statement in statements:
            assert raw(conn, statement, form, ordered=ordered) == raw(lake.twin, statement, form, ordered=ordered), (
                statement
            )


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
def test_rows_and_conditions_give_the_bytes_of_an_ordinary_table(lake: Spanning, form: int) -> None:
    assert_same(lake, whole_battery.ROWS if form == 0 else whole_battery.ROWS[:30], engine="duckdb", form=form)


@pytest.mark.parametrize("form", [0, 1], ids=["text", "binary"])
def test_aggregates_joins_and_queries_within_give_the_bytes_of_an_ordinary_table(lake: Spanning, form: int) -> None:
    assert_same(
        lake, whole_battery.AGGREGATES if form == 0 else whole_battery.AGGREGATES[:20], engine="duckdb", form=form
    )


def test_ordered_answers_come_in_the_order_of_an_ordinary_table(lake: Spanning) -> None:
    assert_same(lake, whole_battery.ORDERED, engine="duckdb", ordered=True)


def test_what_is_not_known_to_be_equal_is_answered_by_postgres(lake: Spanning) -> None:
    assert_same(lake, whole_battery.LEFT_TO_POSTGRES, engine="auto")
    with person(lake, engine="duckdb") as conn:
        for statement in whole_battery.LEFT_TO_POSTGRES:
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match="TC510: DuckDB does not answer this statement"
            ):
                conn.execute(statement.encode())


def test_the_battery_has_as_many_queries_as_it_must() -> None:
    assert sum(map(len, (whole_battery.ROWS, whole_battery.AGGREGATES, whole_battery.ORDERED))) >= 150


def test_parameters_and_prepared_statements_are_answered_alike(lake: Spanning) -> None:
    with person(lake, engine="duckdb") as conn:
        for prepare in (False, True):
            for low, kind in ((5, "buy"), (3000, "view"), (1, "none")):
                query = "select id, price, ts from events where id > %s and kind = %s and ts > %s order by id limit %s"
                values = (low, kind, "2026-01-03 00:00:00+00", 7)
                ours = conn.execute(query, values, prepare=prepare, binary=prepare).fetchall()
                assert ours == lake.twin.execute(query, values).fetchall()
        query = (
            "select kind, avg(price), sum(qty) from events where shop = any('{1, 2}') or shop = %s group by "
            "kind order by kind"
        )
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            conn.execute(query, (3,))
        conn.execute("set thermocline.engine = auto")
        assert conn.execute(query, (3,)).fetchall() == lake.twin.execute(query, (3,)).fetchall()
        query = "select kind, avg(price + %s), count(*) from events where shop = %s group by kind order by kind"
        assert conn.execute(query, (1, 3)).fetchall() == lake.twin.execute(query, (1, 3)).fetchall()


def test_errors_are_postgres_own(lake: Spanning) -> None:
    with person(lake) as conn:
        for statement in (
            "select nothing from events",
            "select kind, id from events group by kind",
            "select sum(kind) from events",
            "select id / (shop - shop) from events",
            "select sum(large * large) from events",
            "select * from events where day = '2026-02-30'",
            "select id from events where id = (select id from shops)",
            "selec id from events",
        ):
            told = []
            for side in (conn, lake.twin):
                with pytest.raises(psycopg.Error) as problem:
                    side.execute(statement.encode())
                told.append(
                    (problem.value.sqlstate, problem.value.diag.message_primary, problem.value.diag.statement_position)
                )
            assert told[0] == told[1]
        assert conn.execute("select count(*) from shops").fetchone() == (9,)


def test_a_session_in_another_time_zone_or_style_sees_what_postgres_shows(lake: Spanning) -> None:
    statements = [
        "select ts, day, at from events where id < 9",
        "select date_trunc('day', ts), count(*) from events group by 1",
        "select day, count(*) from events where ts < '2026-01-03 12:00' group by day",
        "select max(ts), avg(qty) from events",
        "select raw, f from events where id < 20",
    ]
    with person(lake) as conn:
        for setting in (
            "timezone = 'Asia/Kolkata'",
            "datestyle = 'German'",
            "bytea_output = 'escape'",
            "extra_float_digits = -3",
        ):
            for side in (conn, lake.twin):
                side.execute(f"set {setting}".encode())
            for statement in statements:
                assert raw(conn, statement) == raw(lake.twin, statement)
        for setting in ("timezone", "datestyle", "bytea_output", "extra_float_digits"):
            lake.twin.execute(f"reset {setting}".encode())


def test_explain_says_which_engine_runs_and_why(lake: Spanning) -> None:
    with person(lake) as conn:
        heard: list[str] = []
        conn.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        told = [row[0] for row in conn.execute("explain select count(*) from events where id = 3")]
        assert "engine: duckdb" in told[1]
        assert any(re.search(r"[1-9]\d* files read, [1-9]\d* skipped", line) for line in told)
        told = [row[0] for row in conn.execute("explain analyze select id from events where ts > '2026-04-20'")]
        assert any("actual: " in line for line in told)
        assert any("0 files read" in line for line in told)
        assert not heard
        told = [row[0] for row in conn.execute("explain select sum(f) from events")]
        assert "Aggregate" in told[0]
        assert heard == ["engine: postgres, because SUM of float8 is left to Postgres"]
        conn.execute("set thermocline.engine = postgres")
        assert "Aggregate" in str(conn.execute("explain select count(*) from events").fetchone())
        assert heard[1:] == ["engine: postgres, because thermocline.engine is postgres"]
        assert conn.execute("show thermocline.engine").fetchone() == ("postgres",)
        conn.execute("set thermocline.engine = abacus")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="may be auto, duckdb or postgres"):
            conn.execute("select count(*) from events")
        assert conn.execute("explain select count(*) from shops").fetchone()


def test_a_role_reads_what_postgres_lets_it_read_and_nothing_more(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    owner.execute(
        "create role narrow login password 'n'; create role blind login password 'b'; create role wide login "
        "password 'w'"
    )
    owner.execute(
        "grant usage on schema public_all, public to narrow, wide, blind; grant select on public_all.events to wide"
    )
    owner.execute("grant select (id, shop) on public_all.events to narrow; grant narrow to wide")
    try:
        with person(lake, user="narrow", password="n", engine="duckdb") as conn:
            assert conn.execute("select count(id), max(shop) from events").fetchall() == [(3297, 6)]
        with person(lake, user="narrow", password="n") as conn:
            for statement in (
                "select price from events",
                "select count(*) from events where kind = 'buy'",
                "select count(*) from shops",
            ):
                with pytest.raises(
                    psycopg.errors.InsufficientPrivilege, match=r"permission denied for (view events|table shops)"
                ):
                    conn.execute(statement.encode())
        with person(lake, user="wide", password="w", engine="duckdb") as conn:
            assert (
                conn.execute("select sum(qty) from events").fetchall()
                == lake.twin.execute("select sum(qty) from events").fetchall()
            )
            conn.execute("set role narrow; set thermocline.engine = auto")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("select sum(qty) from events")
        with (
            person(lake, user="blind", password="b") as conn,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for view events"),
        ):
            conn.execute("select count(*) from events")
    finally:
        owner.execute("drop owned by narrow, wide, blind; drop role narrow, wide, blind")


def test_a_function_or_table_of_the_sessions_own_is_meant_when_it_comes_first(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    owner.execute(
        "create schema mine; create function mine.round(integer) returns integer language sql immutable as 'select 42'"
    )
    try:
        with person(lake, path="mine, public_all, public") as conn:
            assert conn.execute("select round(max(shop)) from events").fetchone() == (42,)
        with person(lake) as conn:
            conn.execute("create temp table events (id int)")
            assert conn.execute("select count(*) from events").fetchone() == (0,)
            assert conn.execute("select count(*) from public_all.events").fetchone() == (3297,)
            assert conn.execute("with events as (select 1 as id) select count(*) from events").fetchone() == (1,)
    finally:
        owner.execute("drop schema mine cascade")


def test_a_function_that_only_the_parser_knows_is_the_users_own(lake: Spanning) -> None:
    """`len` is no function of Postgres': the parser takes it for LENGTH, the user made one that says something else."""
    owner = lake.session(autocommit=True)
    owner.execute("create function public.len(text) returns integer language sql immutable as 'select 42'")
    owner.execute(
        "create function public.ifnull(integer, integer) returns integer language sql immutable as 'select 43'"
    )
    owner.execute("create function public.\"LOWER\"(text) returns text language sql immutable as $$select 'mine'$$")
    try:
        with person(lake) as conn:
            for condition in ("len(kind) = 42", "ifnull(shop, 1) = 43", "\"LOWER\"(kind) = 'mine'"):
                assert conn.execute(f"select count(*) from events where {condition}".encode()).fetchone() == (3297,), (
                    condition
                )
    finally:
        owner.execute('drop function public.len(text), public.ifnull(integer, integer), public."LOWER"(text)')


def test_a_column_in_the_place_of_a_unit_is_read_as_a_column(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    for schema in ("public", "twin"):
        owner.execute(f'create table {schema}.units (id bigint, year text, "Day" text)'.encode())
        owner.execute(f"insert into {schema}.units select i, 'month', 'hour' from generate_series(1, 99) i".encode())
    asked = (
        "select date_trunc(year, ts), count(*) from events join units on units.id = events.id group by 1 order by 1",
        'select date_trunc("Day", at) from events join units on units.id = events.id order by 1',
        "select count(*) from events join units on units.id = events.id where date_part(year, ts) = 1",
        "select extract(year from ts), count(*) from events join units on units.id = events.id group by 1",
    )
    try:
        with person(lake) as conn:
            for statement in asked:
                assert raw(conn, statement) == raw(lake.twin, statement)
    finally:
        owner.execute("drop table public.units, twin.units")


def test_row_level_security_of_a_joined_table_is_kept(lake: Spanning) -> None:
    owner = lake.session(autocommit=True)
    owner.execute("create table public.secret (shop int); insert into public.secret values (1), (2)")
    owner.execute(
        "alter table public.secret enable row level security; create policy one on public.secret using (shop = 1)"
    )
    owner.execute("create role guest login password 'g'; grant usage on schema public_all, public to guest")
    owner.execute("grant select on public.secret, public_all.events to guest")
    try:
        with person(lake, user="guest", password="g") as conn:
            counted = conn.execute("select count(*) from events e join secret s on s.shop = e.shop").fetchall()
        assert counted == lake.twin.execute("select count(*) from events where shop = 1").fetchall()
    finally:
        owner.execute("drop owned by guest; drop role guest; drop table public.secret")


def test_a_transaction_sees_its_own_writes_and_keeps_its_snapshot(lake: Spanning) -> None:
    count, other = "select count(*), sum(qty) from events", lake.session(autocommit=True)
    with person(lake) as conn, person(lake, engine="duckdb") as steady:
        (before,) = conn.execute(count).fetchall()
        conn.execute("begin")
        assert conn.execute(count).fetchone() == before
        conn.execute(
            "insert into events (id, ts, day, shop, qty) values (9100, '2026-02-02 02:00+00', '2026-02-02', 1, 1)"
        )
        assert conn.execute(count).fetchone() == (before[0] + 1, before[1] + 1)
        conn.execute("rollback")
        steady.execute("begin isolation level repeatable read")
        assert steady.execute(count).fetchone() == before
        for stamp in ("2026-02-02 02:00+00", "2026-04-20 02:00+00"):
            other.execute("insert into events (id, ts, day, shop, qty) values (9200, %s, '2026-02-02', 1, 1)", (stamp,))
        assert steady.execute(count).fetchone() == before
        assert conn.execute(count).fetchone() == (before[0] + 2, before[1] + 2)
        steady.execute("set local thermocline.engine = auto; savepoint s")
        assert steady.execute(count).fetchone() == before
        steady.execute("commit")
        assert steady.execute(count).fetchone() == (before[0] + 2, before[1] + 2)
        other.execute("delete from events where id = 9200")
        assert steady.execute(count).fetchone() == before


def test_every_answer_is_of_one_point_in_time_while_amounts_move_across_the_line(lake: Spanning) -> None:
    writer, stop, moved = lake.session(autocommit=True), threading.Event(), 0

    def move() -> None:
        nonlocal moved
        while not stop.is_set():
            with writer.transaction():
                writer.execute("update events set large = large - 10 where id = 100 and ts < '2026-02-01'")
                writer.execute("update events set large = large + 10 where id = 3200 and ts > '2026-04-01'")
            moved += 1

    mover = threading.Thread(target=move)
    with person(lake, engine="duckdb") as conn:
        whole = "select sum(large), count(*) from events"
        apart = "select a.large + b.large from events a join events b on b.id = 3200 where a.id = 100"
        before = conn.execute(whole).fetchone(), conn.execute(apart).fetchone()
        mover.start()
        try:
            seen = {(conn.execute(whole).fetchone(), conn.execute(apart).fetchone()) for _ in range(25)}
        finally:
            stop.set()
            mover.join()
    assert seen == {before}
    assert moved > 3
    writer.execute("update events set large = large + %s where id = 100 and ts < '2026-02-01'", (10 * moved,))
    writer.execute("update events set large = large - %s where id = 3200 and ts > '2026-04-01'", (10 * moved,))


def test_values_that_only_postgres_holds_send_the_statement_there(lake: Spanning) -> None:
    odd = (
        (
            "insert into events (id, ts, day, at, "
            "price, shop) values "
            "(9300, '2026-04-29', 'infinity', '-infinity', "
            "'NaN', 1)"
        ),
        "delete from events where id = 9300",
    )
    lake.both(odd[0])
    try:
        statements = [
            "select max(day), min(at) from events",
            "select id, price from events where id > 3290",
            "select sum(price) from events",
        ]
        assert_same(lake, statements, engine="auto")
    finally:
        lake.both(odd[1])


def test_a_cancel_stops_duckdb_and_the_session_goes_on(lake: Spanning) -> None:
    long = "select count(*) from events a, events b, events c where a.qty + b.qty + c.qty = 7"
    with person(lake, engine="duckdb") as conn:
        timer = threading.Timer(1.0, conn.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute(long)
        timer.join()
        assert conn.execute("select count(*) from events where id < 10").fetchone() == (9,)
        conn.execute("set statement_timeout = 500")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            conn.execute(long)
        assert conn.execute("select count(*) from events where id < 10").fetchone() == (9,)


def test_the_answers_stay_the_same_when_corrections_are_folded_into_the_lake(lake: Spanning) -> None:
    with person(lake, engine="duckdb") as conn:
        before = [raw(conn, statement) for statement in whole_battery.AGGREGATES[:12]]
        lake.fold()
        assert [raw(conn, statement) for statement in whole_battery.AGGREGATES[:12]] == before
    assert_same(lake, whole_battery.AGGREGATES[:30], engine="duckdb")
    assert_same(lake, whole_battery.AT_THE_EDGES, engine="duckdb")
