"""What an unfriendly client sends on its own login: Postgres' own answer comes back, never an internal error or a
dropped connection."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import pq
from tests.gateway.whole_lake import outcome, person, through
from tests.twin import Spanning

EXTREME = {
    "a thousand plus": "select count(*) from events where id < " + "+".join(["1"] * 1000),
    "five thousand plus": "select count(*) from events where id < " + "+".join(["1"] * 5000),
    "250 or": "select count(*) from events where " + " or ".join(f"id = {number}" for number in range(250)),
    "1500 or": "select count(*) from events where " + " or ".join(f"id = {number}" for number in range(1500)),
    "1500 and": "select count(*) from events where " + " and ".join(f"id <> {number}" for number in range(1500)),
    "5000 in a list": "select count(*) from events where id in (" + ",".join(map(str, range(5000))) + ")",
    "a thousand parentheses": "select count(*) from events where " + "(" * 1000 + "id=1" + ")" * 1000,
    "300 nested cases": "select "
    + "case when ok then 1 else " * 300
    + "2"
    + " end" * 300
    + " from events where id < 5",
    "a thousand texts joined": "select " + "||".join(["kind"] * 1000) + " from events where id < 3",
    "5000 digits": "select count(*) from events where id < " + "9" * 5000,
    "5000 digits beside a decimal": "select count(*) from events where price < " + "9" * 5000,
    "5000 digits behind the point": "select count(*) from events where price > 0." + "0" * 5000 + "1",
    "forty comments": "/**/" * 40 + "x select count(*) from events",
    "more columns than there may be": "select " + ", ".join(["id"] * 1700) + " from events where id < 3",
    "sixty queries within": "select id from "
    + "(select id from " * 60
    + "events"
    + "".join(f") s{at}" for at in range(60))
    + " where id < 4",
    "a hundred unions": " union all ".join(["select id from events where id < 3"] * 100),
    "a name that is cut": f"with {'a' * 70} as (select id from events where id < 3) select count(*) from {'a' * 66}",
    "nothing": "",
    "a semicolon": ";",
    "a comment": "-- events",
    "two statements": "select 1; select count(*) from events",
    "an open string": "select 'events",
    "an open comment": "select count(*) from events /* where",
    "an open dollar quote": "select count(*) from events where kind = $x$ events $x",
    "a limit beyond 64 bits": "select id from events order by id limit 99999999999999999999",
    "explain and many spaces": "explain" + " " * 20_000 + "x events",
    "explain analyze and many spaces": "explain" + " analyze" * 5_000 + " " * 20_000 + "x events",
    "many open dollar quotes": "select count(*) from events where kind = "
    + "".join(f"$a{at}$" for at in range(20_000)),
    "a number of 150000 digits that ends in a letter": "select count(*) from events where f = '" + "9" * 150_000 + "x'",
    **{
        f"thirty nested {word}{bracket[0]}": (
            f"select count(*) from events where id = {(word + bracket[0]) * 30}1{bracket[1] * 30}"
        )
        for word in ("array", "date ", "decimal", "timestamp ", "id::int", "f", "")
        for bracket in ("()", "[]")
    },
    "a CTE elsewhere": (
        "select count(*) from shops, (with shops as (select id from events where id < 3) select id from shops) s"
    ),
}


@pytest.mark.parametrize("name", EXTREME)
def test_no_statement_ends_in_an_internal_error_or_a_dropped_connection(lake: Spanning, name: str) -> None:
    with person(lake) as conn:
        for form in (0, 1):
            assert outcome(conn, EXTREME[name], form) == outcome(lake.twin, EXTREME[name], form)
        assert conn.execute("select count(*) from events where id < 10").fetchone() == (9,)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP", "WIN1252", "UTF8"])
def test_a_client_of_another_encoding_is_answered_in_it(lake: Spanning, encoding: str) -> None:
    word = {"LATIN1": "Ärger", "WIN1252": "Ärger", "EUC_JP": "日本", "SQL_ASCII": "Ärger", "UTF8": "Ärger"}[encoding]
    raw = word.encode({"SQL_ASCII": "utf-8", "EUC_JP": "euc_jp", "WIN1252": "cp1252"}.get(encoding, encoding))
    statements = [
        b"select kind, count(*) from events where kind = '" + raw + b"' group by kind",
        b"select '" + raw + b"' as \"" + raw + b'", count(*) from events',
        b"select kind from events where id < 9 order by id",
        b"select count(*) from events where kind = '\xff\xfe'",
    ]
    with person(lake) as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        twin.execute("set search_path = twin; set timezone = 'UTC'")
        for side in (conn, twin):
            side.pgconn.exec_(f"set client_encoding = '{encoding}'".encode())
        for statement in statements:
            for form in (0, 1):
                assert outcome(conn, statement, form) == outcome(twin, statement, form), statement
            for side in (conn, twin):
                side.pgconn.prepare(b"s", statement)
            assert _answer(conn.pgconn.exec_prepared(b"s", [])) == _answer(twin.pgconn.exec_prepared(b"s", []))
            for side in (conn, twin):
                side.pgconn.exec_(b"deallocate all")
        for side in (conn, twin):
            side.pgconn.exec_(b"set client_encoding = 'UTF8'")
        assert outcome(conn, "select count(*) from events") == outcome(twin, "select count(*) from events")


def _answer(result: pq.abc.PGresult) -> tuple[Any, ...]:
    rows = [[result.get_value(row, at) for at in range(result.nfields)] for row in range(result.ntuples)]
    return result.status, result.error_field(pq.DiagnosticField.SQLSTATE), result.command_status, rows


def test_a_refused_parse_is_not_taken_for_the_statement_of_that_name(lake: Spanning) -> None:
    first, second = b"select count(*) from events where id < 10", b"select count(*) from events where id < 100"
    with person(lake) as conn:
        for side in (conn, lake.twin):
            heard = [_answer(side.pgconn.prepare(b"s", first)), _answer(side.pgconn.prepare(b"s", second))]
            heard.append(_answer(side.pgconn.exec_prepared(b"s", [])))
            heard.append(_answer(side.pgconn.prepare(b"broken", b"select nothing from events")))
            heard.append(_answer(side.pgconn.exec_prepared(b"broken", [])))
            heard.append(_answer(side.pgconn.prepare(b"broken", second)))
            heard.append(_answer(side.pgconn.exec_prepared(b"broken", [])))
            side.pgconn.exec_(b"deallocate s")
            heard.append(_answer(side.pgconn.exec_prepared(b"s", [])))
            side.pgconn.exec_(b"prepare s as select count(*) from events where id < 3")
            heard.append(_answer(side.pgconn.exec_prepared(b"s", [])))
            side.pgconn.exec_(b"deallocate all")
            if side is conn:
                ours = heard
        assert ours == heard
        assert [state for _, state, _, _ in heard] == [
            None,
            b"42P05",
            None,
            b"42703",
            b"26000",
            None,
            None,
            b"26000",
            None,
        ]


def test_an_error_in_a_transaction_ends_it_as_in_postgres_and_a_declined_statement_does_not(lake: Spanning) -> None:
    statements = (
        "begin",
        "select kind, avg(price), '\"k\"' from events group by kind",
        "select interval 'x' from events",
        "select 1",
        "rollback",
    )
    with person(lake) as conn:
        for statement in (
            *statements,
            "begin",
            "select sum(f) from events where id = 3",
            "select count(*) from events",
            "commit",
        ):
            assert outcome(conn, statement) == outcome(lake.twin, statement), statement


@contextmanager
def _raw(conn: psycopg.Connection[Any]) -> Iterator[socket.socket]:
    """The socket of a session that is logged in."""
    line = socket.socket(fileno=os.dup(conn.pgconn.socket))
    line.settimeout(30)
    try:
        yield line
    finally:
        line.close()


def _heard(line: socket.socket, frames: bytes) -> list[tuple[bytes, bytes]]:
    """What is answered up to ReadyForQuery, or until the connection ends; of errors only the state."""
    line.setblocking(True)
    line.sendall(frames)
    buffer = b""
    found: list[tuple[bytes, bytes]] = []
    while not found or found[-1][0] != b"Z":
        piece = line.recv(65_536)
        if not piece:
            break
        buffer += piece
        while len(buffer) >= 5 and len(buffer) >= 1 + struct.unpack(">i", buffer[1:5])[0]:
            end = 1 + struct.unpack(">i", buffer[1:5])[0]
            tag, body = buffer[:1], buffer[5:end]
            found.append((tag, body[body.index(b"\0C") + 2 :][:5] if tag == b"E" else body))
            buffer = buffer[end:]
    return found


def _frame(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack(">i", len(body) + 4) + body


SYNC = _frame(b"S", b"")
MALFORMED = {
    "a NUL within a query": _frame(b"Q", b"select count(*)\0 from events\0"),
    "a query without its end": _frame(b"Q", b"select count(*) from events"),
    "an empty query message": _frame(b"Q", b""),
    "a Parse without its end": _frame(b"P", b"s\0select count(*) from events") + SYNC,
    "a Parse of bytes that are no text": _frame(b"P", b"\xff\xfe\0select '\xff' from events\0\0\0") + SYNC,
    "a Bind that is too short": _frame(b"P", b"\0select 1 from events\0\0\0")
    + _frame(b"B", b"\0")
    + _frame(b"E", b"\0\0\0\0\0")
    + SYNC,
    "a Bind of a statement nobody prepared": _frame(b"B", b"\0nobody\0\0\0\0\0\0\0")
    + _frame(b"E", b"\0\0\0\0\0")
    + SYNC,
    "an Execute of no portal": _frame(b"E", b"none\0\0\0\0\0") + SYNC,
    "a Describe of neither": _frame(b"D", b"Xs\0") + SYNC,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_is_postgres_to_refuse(lake: Spanning, name: str) -> None:
    with person(lake) as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        twin.execute("set search_path = twin")
        with _raw(conn) as ours, _raw(twin) as theirs:
            assert _heard(ours, MALFORMED[name]) == _heard(theirs, MALFORMED[name])
            query = _frame(b"Q", b"select count(*) from events where id < 10\0")
            assert [piece[1] for piece in _heard(ours, query) if piece[0] == b"D"] == [b"\0\x01\0\0\0\x019"]


def test_a_message_of_more_than_64_mib_passes(lake: Spanning) -> None:
    large = b"x" * (65 * 1024 * 1024)
    with psycopg.connect(through(lake), autocommit=True) as conn:
        assert conn.execute("select octet_length(%b::bytea)", (large,)).fetchone() == (len(large),)
        comment = "/*" + "x" * 2_000_000 + "*/ select count(*) from public_all.events where id < 10"
        assert conn.execute(comment.encode()).fetchone() == (9,)
        with conn.pipeline():
            first = conn.execute("select octet_length(%b::bytea)", (large[:2_000_000],))
            second = conn.execute("select count(*) from public_all.events where id < %s", (10,))
            assert (first.fetchone(), second.fetchone()) == ((2_000_000,), (9,))


def test_a_failure_before_the_first_row_is_answered_by_postgres(lake: Spanning) -> None:
    statements = [
        "select qty * 2147483647 from events where id < 5",
        "select sum(qty * small) from events",
        "select kind || null from events where id < 3",
    ]
    with person(lake) as conn:
        for statement in statements:
            for form in (0, 1):
                assert outcome(conn, statement, form) == outcome(lake.twin, statement, form), statement


@pytest.mark.parametrize("form", [0, 1], ids=["simple", "extended"])
def test_a_constant_that_cannot_be_computed_alone_leaves_the_transaction_as_it_was(lake: Spanning, form: int) -> None:
    """Postgres never comes to the branch whose constant is out of range."""
    never = "'2026-01-01'::timestamptz + interval '300000 years'"
    statements = [
        "begin",
        f"select case when id > 0 then ts else {never} end from events where id < 5",
        "select count(*) from events where ts < '2026-01-05'::timestamptz - interval '1 day'",
        "savepoint mine",
        f"select count(*) from events where id < 5 or ts < {never} and id < 0",
        "rollback to savepoint mine",
        "select 1 / 0",
        "rollback to savepoint mine",
        "select count(*) from events",
        "commit",
    ]
    with person(lake) as conn:
        for statement in statements:
            assert outcome(conn, statement, form) == outcome(lake.twin, statement, form), statement
        assert conn.info.transaction_status == pq.TransactionStatus.IDLE


@pytest.mark.parametrize("form", [0, 1], ids=["simple", "extended"])
@pytest.mark.parametrize("begin", ["select 1", "begin"], ids=["outside a transaction", "in a transaction"])
def test_a_constant_that_fails_leaves_no_prepared_statement_behind(lake: Spanning, begin: str, form: int) -> None:
    never = (
        "select case when id > 0 then ts else '2026-01-01'::timestamptz + interval '300000 years' end from "
        "events where id < 5"
    )
    following = "select count(*) from events where ts < '2026-01-05'::timestamptz - interval '1 day'"
    with person(lake) as conn:
        conn.execute(begin.encode())
        assert outcome(conn, never, form) == outcome(lake.twin, never, form)
        assert conn.execute("select name from pg_prepared_statements").fetchall() == []
        conn.execute("set thermocline.engine = duckdb")
        assert outcome(conn, following, form) == outcome(lake.twin, following, form)
        with pytest.raises(psycopg.Error, match="DuckDB does not answer this statement"):
            conn.execute(never.encode())


@pytest.fixture
def slow_sums(lake: Spanning) -> Iterator[str]:
    """A search path on which the first sum of a moment and an interval takes a minute: constants are computed on it,
    then it is judged."""
    with psycopg.connect(lake.dsn, autocommit=True) as conn:
        conn.execute("""
            create schema slow; create sequence slow.calls;
            create function slow.add(timestamptz, interval) returns timestamptz language plpgsql as $$
                begin
                    if nextval('slow.calls') = 1 then perform pg_sleep(60); end if;
                    return pg_catalog.timestamptz_pl_interval($1, $2);
                end $$;
            create operator slow.+ (leftarg = timestamptz, rightarg = interval, function = slow.add)
        """)
        try:
            yield "slow, pg_catalog, public_all, public"
        finally:
            conn.execute("drop schema slow cascade")


def _wait_until_it_sleeps(lake: Spanning, pid: int) -> None:
    with psycopg.connect(lake.dsn, autocommit=True) as watching:
        for _ in range(300):
            if watching.execute(
                "select 1 from pg_stat_activity where pid = %s and wait_event = 'PgSleep'", (pid,)
            ).fetchone():
                return
            time.sleep(0.1)
    raise AssertionError("no constant is computed")


@pytest.mark.parametrize("form", [0, 1], ids=["simple", "extended"])
@pytest.mark.parametrize("begin", ["select 1", "begin"], ids=["outside a transaction", "in a transaction"])
def test_a_cancel_while_constants_are_computed_ends_the_statement(
    lake: Spanning, slow_sums: str, begin: str, form: int
) -> None:
    counted = "select count(*) from events where ts < '2026-01-05'::timestamptz + interval '1 day'"
    with person(lake, path=slow_sums) as conn, ThreadPoolExecutor(1) as threads:
        pid = conn.execute("select pg_backend_pid()").fetchone()
        conn.execute(begin.encode())
        running = threads.submit(outcome, conn, counted, form)
        _wait_until_it_sleeps(lake, pid[0] if pid else 0)
        conn.cancel_safe()
        assert "57014" in str(running.result())
        assert conn.info.transaction_status == (
            pq.TransactionStatus.INERROR if begin == "begin" else pq.TransactionStatus.IDLE
        )
        conn.execute("rollback")
        assert conn.execute("select name from pg_prepared_statements").fetchall() == []
        assert conn.execute("select count(*) from events where id < 10").fetchone() == (9,)


def test_a_session_that_is_terminated_while_constants_are_computed_hears_why(lake: Spanning, slow_sums: str) -> None:
    counted = b"select count(*) from events where ts < '2026-01-05'::timestamptz + interval '1 day'"
    with person(lake, path=slow_sums) as conn, ThreadPoolExecutor(1) as threads:
        pid = conn.execute("select pg_backend_pid()").fetchone()
        running = threads.submit(conn.execute, counted)
        _wait_until_it_sleeps(lake, pid[0] if pid else 0)
        lake.twin.execute("select pg_terminate_backend(%s)", pid)
        with pytest.raises(psycopg.errors.AdminShutdown):
            running.result()


def test_constants_are_computed_within_a_transaction_and_leave_no_savepoint(lake: Spanning) -> None:
    counted = (
        "select count(*) from events where ts < now() - interval '1 day' or ts > date '2026-01-01' + interval '1' month"
    )
    with person(lake, engine="duckdb") as conn:
        for begin in ("begin", "begin isolation level repeatable read"):
            conn.execute(begin.encode())
            answers = [conn.execute(counted.encode()).fetchone() for _ in range(3)]
            assert answers == [lake.twin.execute(counted.encode()).fetchone()] * 3
            conn.execute("commit")


PREPARED = {
    "a moment without a zone": "select count(*) from events where ts < '2026-01-02 00:00'",
    "a moment with a type": "select count(*) from events where ts < timestamptz '2026-01-02 00:00'",
    "a day in the place of a moment": "select count(*) from events where ts between '2026-01-02' and '2026-01-04'",
    "the last step": "select max(ts) - timestamptz '2026-01-02 00:00', avg(qty) from events",
    "an interval": (
        "select count(*) from events where ts < timestamptz '2026-01-04 00:00+00' - interval '-1 day 2 hours'"
    ),
    "a moment with a zone": "select count(*) from events where ts < '2026-01-02 00:00+00'",
    "a comparison with null": "select count(*) from events where qty = null",
    "a backslash": r"select 'a\\b' as word, count(*) from events",
    "a day of its own": "select count(*) from events where day < '2026-01-02' and day < date '2026-01-03'",
    "a moment with a type, cast again": "select count(*) from events where day < timestamptz '2026-01-02'::date",
    "a moment in parentheses, cast again": "select count(*) from events where day < (timestamptz '2026-01-02')::date",
    "an untyped day beside a day": "select count(*) from events where small > date '2026-01-12' - '01/02/2026'",
    "an untyped day in parentheses": "select count(*) from events where small > date '2026-01-12' - ('01/02/2026')",
}


@pytest.mark.parametrize("name", PREPARED)
def test_a_prepared_statement_keeps_its_literals_as_they_were_read(lake: Spanning, name: str) -> None:
    settings = {
        "timezone": ("Asia/Kolkata", "UTC"),
        "datestyle": ("ISO, MDY", "ISO, DMY"),
        "intervalstyle": ("sql_standard", "postgres"),
        "transform_null_equals": ("on", "off"),
        "standard_conforming_strings": ("off", "on"),
    }
    with person(lake) as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        heard = []
        for side in (conn, twin):
            side.execute("set search_path = twin" if side is twin else "set search_path = public_all, public")
            side.execute("set escape_string_warning = off")
            for setting, (before, _) in settings.items():
                side.execute(f"set {setting} = '{before}'".encode())
            side.pgconn.prepare(b"s", PREPARED[name].encode())
            for setting, (_, after) in settings.items():
                side.execute(f"set {setting} = '{after}'".encode())
            heard.append([_answer(side.pgconn.exec_prepared(b"s", [], result_format=form)) for form in (0, 1)])
        assert heard[0] == heard[1]


def test_a_prepared_statement_of_lasting_literals_and_parameters_is_answered_here(lake: Spanning) -> None:
    query = (
        b"select count(*) from events where ts < '2026-01-02 00:00+00' and day < date '2026-01-02' and id < $1 "
        b"and ts < now()"
    )
    with person(lake, engine="duckdb") as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        twin.execute("set search_path = twin")
        for side in (conn, twin):
            side.pgconn.prepare(b"s", query)
        assert _answer(conn.pgconn.exec_prepared(b"s", [b"9"])) == _answer(twin.pgconn.exec_prepared(b"s", [b"9"]))


def test_a_session_that_reads_null_in_arrays_as_text_is_answered_by_postgres(lake: Spanning) -> None:
    statement = (
        "select qty, nullif(kind, '') as word, avg(price) from events where id < 90 group by qty, nullif(kind, '')"
    )
    with person(lake, engine="duckdb") as conn:
        assert outcome(conn, statement) == outcome(lake.twin, statement)
        conn.execute("set array_nulls = off; set thermocline.engine = auto")
        assert outcome(conn, statement) == outcome(lake.twin, statement)


def test_an_unnamed_portal_that_waits_is_not_lost_to_the_gateways_own_questions(lake: Spanning) -> None:
    def run(portal: bytes, sql: bytes, rows: int) -> bytes:
        bound = _frame(b"B", portal + b"\0\0\0\0\0\0\0\0")
        return _frame(b"P", b"\0" + sql + b"\0\0\0") + bound + more(portal, rows)

    def more(portal: bytes, rows: int) -> bytes:
        return _frame(b"E", portal + b"\0" + struct.pack(">i", rows))

    def query(sql: bytes) -> bytes:
        return _frame(b"Q", sql + b"\0")

    steps = [
        query(b"begin"),
        run(b"", b"select id from events where id < 9 order by id", 2) + SYNC,
        run(b"other", b"select count(*) from events where ts < '2026-01-03'::timestamptz + interval '1 day'", 0) + SYNC,
        more(b"", 2) + SYNC,
        run(b"third", b"select kind, avg(price) from events group by kind order by kind", 0) + SYNC,
        more(b"", 2) + SYNC,
        query(b"select count(*) from events"),
        more(b"", 2) + SYNC,
        query(b"rollback"),
        query(b"select count(*) from events"),
        _frame(b"B", b"\0\0\0\0\0\0\0\0") + more(b"", 0) + SYNC,
    ]
    with person(lake) as conn, psycopg.connect(lake.dsn, autocommit=True) as twin:
        twin.execute("set search_path = twin; set timezone = 'UTC'")
        with _raw(conn) as ours, _raw(twin) as theirs:
            for number, step in enumerate(steps):
                assert _heard(ours, step) == _heard(theirs, step), number


@pytest.mark.parametrize("begin", ["select 1", "begin"], ids=["outside a transaction", "in a transaction"])
def test_a_session_is_not_ended_as_idle_while_duckdb_answers(lake: Spanning, begin: str) -> None:
    """The client reads slowly, so the answer takes longer than either timeout."""
    with person(lake, engine="duckdb") as conn, _raw(conn) as line:
        conn.execute("set idle_session_timeout = '2s'; set idle_in_transaction_session_timeout = '2s'")
        conn.execute(begin.encode())
        line.sendall(
            _frame(b"Q", b"select a.id, a.ts, a.u, a.raw, b.u from events a cross join events b where b.id < 300\0")
        )
        time.sleep(4)
        heard = _heard(line, b"")
        assert heard[-2][0] == b"C"
        assert heard[-1][0] == b"Z"
        assert [piece[0] for piece in _heard(line, _frame(b"Q", b"select 1\0"))] == [b"T", b"D", b"C", b"Z"]
