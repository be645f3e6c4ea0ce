"""Postgres reads SQL: statements that the gateway once read otherwise, each with the answer of an ordinary table."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq
from tests.gateway.whole_lake import outcome, person, raw
from tests.twin import Spanning


@pytest.fixture(scope="module")
def people(lake: Spanning) -> Iterator[None]:
    """A table with a column `user` on both sides."""
    owner = lake.session(autocommit=True)
    for schema in ("public", "twin"):
        owner.execute(f'create table {schema}.people (id integer primary key, "user" text)'.encode())
        owner.execute(f"insert into {schema}.people select i, 'ann' from generate_series(1, 3) i".encode())
    yield
    owner.execute("drop table public.people, twin.people")


READ_OTHERWISE = {
    "a numeric without digits of its own": "select sum(price::numeric), max(price::numeric) from events",
    "a pattern in the place of a position": (
        "select substring(kind from '1'), count(*) from events group by 1 order by 1"
    ),
    "a position as text": "select substring(note from '\\d+') from events where id < 30 order by id",
    "the current user": "select count(*) from events e join people p on p.id = e.shop where user = 'ann'",
    "a column called user": "select count(*) from events e join people p on p.id = e.shop where \"user\" = 'ann'",
    "a number with an underscore": "select qty + 1_000, qty + 0x10, 1_0.5 from events where id < 9 order by id",
    "a string with another scale": "select id, coalesce(price, '0') from events where id < 5 or id = 9001 order by id",
    "a string in CASE": "select case when id < 3 then price else '7' end from events where id < 5 order by id",
    "a sum past an overflow": "select sum(qty + 2147483000) from events",
    "a sum past an overflow in the lake": "select sum(qty + 2147483000) from events where ts < '2026-02-01'",
    "a sum of a difference": "select sum(small - 1), sum(qty + 1), sum(1 + large) from events",
    "many ORs": "select count(*) from events where " + " or ".join(f"id = {number}" for number in range(250)),
    "many elements": "select count(*) from events where id in (" + ", ".join(map(str, range(2_000))) + ")",
    "a thousand sums": "select count(*) from events where id < " + " + ".join(["1"] * 1_000),
    "a thousand parentheses": "select count(*) from events where id < " + "(" * 1_000 + "9" + ")" * 1_000,
    "a thousand NOTs": "select count(*) from events where " + "not " * 1_000 + "id < 9",
    "a CTE named like its table": "with events as (select * from events) select count(*) from events",
    "a CTE that hides a table": "with shops as (select id from events) select count(*), max(id) from shops",
    "a literal and a number": "select count(*) from events where shop = '1' and qty > 10.5 and id <> '7'",
    "an operator before its operand": "select @ small, |/ 4, - - small from events where id < 9 order by id",
    "a row": "select count(*) from events where (shop, ok) = (1, true) or (shop, qty) < (1, 2)",
    "a join by name": "select count(*) from events e natural join (select 1 as shop) s",
    "a table in parentheses": (
        "select count(*) from (events e join shops s on s.id = e.shop) left join rates r on r.kind = e.kind, people p"
    ),
    "joins on the right": (
        "select count(*), count(e.id) from rates r left join (events e join shops s on s.id = e.shop) "
        "on r.kind = e.kind"
    ),
    "a right join beside a comma": (
        "select count(*), count(e.id) from people p, events e right join shops s on s.id = e.shop and e.id < 9"
    ),
    "any of an array": "select count(*) from events where shop = any (array[1, 2]) and shop <> all (array[3, 4])",
    "an order by an expression": "select distinct shop + 1 from events order by shop + 1 desc",
    "an output that hides a column": "select -id as id from events where id < 9 order by id",
    "a name of an output in a sum": "select shop, sum(qty) as qty from events group by shop order by qty desc, shop",
    "existing columns": "select count(*) from shops s where exists (select e.* from events e where e.shop = s.id)",
    "a moment in another form": "select count(*) from events where ts < 'January 5, 2026 10:00 PST'",
    "a moment of this day": "select count(*) from events where ts < 'today' and day < date 'now'",
    "an interval in words": "select count(*) from events where ts < timestamptz '2026-01-05' - interval '1 day ago'",
}


@pytest.mark.parametrize("name", READ_OTHERWISE)
@pytest.mark.usefixtures("people")
def test_a_statement_means_what_postgres_reads(lake: Spanning, name: str) -> None:
    lake.twin.execute("set timezone = 'UTC'")
    with person(lake) as conn:
        for form in (0, 1):
            ours, theirs = (outcome(side, READ_OTHERWISE[name], form) for side in (conn, lake.twin))
            assert ours == theirs
        assert conn.execute("select count(*) from events where id < 10").fetchone() == (9,)


ANSWERED_BY_DUCKDB = (
    "select sum(price::numeric), max(price::numeric) from events",
    "select qty + 1_000 from events where id < 9 order by id",
    "select count(*) from events where shop = any (array[1, 2]) and shop <> all (array[3, 4])",
    "select count(*) from (events e join shops s on s.id = e.shop) left join rates r on r.kind = e.kind, people p",
    "select count(*) from shops s where exists (select e.* from events e where e.shop = s.id)",
    "select -id as id from events where id < 9 order by id",
    "select shop, sum(qty) as qty from events group by shop order by qty desc, shop",
    "select count(*) from events where ts < 'January 5, 2026 10:00 PST'",
    "select count(*) from events where ts < timestamptz '2026-01-05' - interval '1 day ago'",
    "select count(*) from events where (shop, ok) = (1, true)",
)
"""Postgres reads them, so DuckDB may run them; by its own reading the gateway could not."""


@pytest.mark.parametrize("statement", ANSWERED_BY_DUCKDB)
@pytest.mark.usefixtures("people")
def test_duckdb_answers_what_postgres_reads_for_it(lake: Spanning, statement: str) -> None:
    lake.twin.execute("set timezone = 'UTC'")
    with person(lake, engine="duckdb") as conn:
        assert raw(conn, statement) == raw(lake.twin, statement)


def test_floats_are_printed_as_postgres_prints_them(lake: Spanning) -> None:
    floats = ("1e-05", "1e+14", "1e15", "123456789012345680", "0.0001", "-0", "NaN", "Infinity", "5e-324", "1.5e300")
    for number, text in enumerate(floats):
        lake.both(
            "insert into events (id, ts, day, shop, f) values "
            f"({9400 + number}, '2026-04-20', '2026-04-20', 1, '{text}')"
        )
    try:
        with person(lake, engine="duckdb") as conn:
            for form in (0, 1):
                statement = "select id, f from events where id >= 9400"
                assert raw(conn, statement, form) == raw(lake.twin, statement, form)
    finally:
        lake.both("delete from events where id >= 9400")


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"])
def test_another_client_encoding_keeps_its_connection_and_its_answers(lake: Spanning, encoding: str) -> None:
    statement = "select kind, count(*) from events where kind <> 'Ärger' group by kind"
    with person(lake) as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        twin.execute("set search_path = twin")
        heard = []
        for side in (conn, twin):
            side.execute(f"set client_encoding = '{encoding}'".encode())
            text = statement.encode("latin-1" if encoding in ("LATIN1", "WIN1252") else "utf-8")
            heard.append((outcome(side, text), outcome(side, b"select count(*) from events")))
            side.execute("set client_encoding = 'UTF8'")
        assert heard[0] == heard[1]


def test_a_refused_parse_is_not_remembered(lake: Spanning) -> None:
    known, refused = b"select count(*) from events where id < 10", b"select count(*) from events where nothing < 10"
    with person(lake) as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        twin.execute("set search_path = twin")
        heard = []
        for side in (conn, twin):
            run = side.pgconn
            answers = [run.prepare(b"s", known), run.prepare(b"s", b"select count(*) from events where id < 99")]
            answers += [run.exec_prepared(b"s", []), run.prepare(b"t", refused), run.exec_prepared(b"t", [])]
            answers += [run.exec_params(refused, []), run.exec_prepared(b"s", [])]
            heard.append(
                [
                    (
                        one.status,
                        one.error_field(pq.DiagnosticField.SQLSTATE),
                        one.get_value(0, 0) if one.ntuples else None,
                    )
                    for one in answers
                ]
            )
        assert heard[0] == heard[1]
        assert heard[0][-1][2] == b"9"


def test_a_statement_of_more_than_a_hundred_parameters_is_answered(lake: Spanning) -> None:
    for count in (99, 100, 101, 3_000):
        holders = ", ".join(f"${at + 1}" for at in range(count))
        text = f"select count(*) from events where id in ({holders})".encode()
        values = [str(at).encode() for at in range(count)]
        with person(lake) as conn:
            ours, theirs = (side.pgconn.exec_params(text, values) for side in (conn, lake.twin))
            assert ours.get_value(0, 0) == theirs.get_value(0, 0), ours.error_message


def test_sizes_that_postgres_accepts_or_refuses_are_answered_alike(lake: Spanning) -> None:
    statements = [
        "select count(*) from events where id < " + "(" * 20_000 + "9" + ")" * 20_000,
        "select count(*) from events where id < " + " + ".join(["1"] * 20_000),
        "select " + ", ".join(["id"] * 1_700) + " from events",
        "select count(*) from events where kind = '" + "x" * 200_000 + "'",
        "select count(*) from " + ", ".join(f"(select 1 from events where id = {at}) t{at}" for at in range(40)),
    ]
    with person(lake) as conn:
        for statement in statements:
            ours, theirs = (outcome(side, statement) for side in (conn, lake.twin))
            assert ours[:2] == theirs[:2], statement[:80]
            assert conn.info.transaction_status == pq.TransactionStatus.IDLE
