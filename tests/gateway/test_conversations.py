"""Logins, sessions, cancels and bad clients, over real sockets."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

NUMBERS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))


def _rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "note": ["x" * 20] * count})


@pytest.fixture
def numbers(site: Any) -> Any:
    """`public.numbers` in the lake, ten rows, and its snapshot."""
    site.lake.create("numbers", NUMBERS)
    site.lake.foreign_table("numbers", "id bigint, note text")
    site.lake.append("numbers", _rows(0, 10))
    return site


def _snapshot(site: Any) -> int:
    return int(site.conn.execute("select s from thermocline.cutline").fetchone()[0])


def _cursor_over(site: Any) -> sql.Composed:
    return sql.SQL(
        "declare c1 cursor for select id from public.numbers where _snapshot = {} order by id asc nulls last"
    ).format(sql.Literal(_snapshot(site)))


def test_a_wrong_password_and_an_unknown_user_hear_the_same(site: Any) -> None:
    heard = []
    for user, password in (("postgres", "wrong"), ("nobody", "wrong")):
        with pytest.raises(psycopg.OperationalError) as problem:
            psycopg.connect(site.direct_dsn(user=user, password=password))
        heard.append(str(problem.value).replace(user, "USER"))
    assert heard[0] == heard[1]
    assert "password authentication failed" in heard[0]


def test_postgres_fdw_with_a_wrong_password_gets_an_error(numbers: Any) -> None:
    numbers.conn.execute(
        "alter user mapping for current_user server thermocline_gateway options (set password 'wrong')"
    )
    with pytest.raises(psycopg.Error, match="password authentication failed"):
        numbers.conn.execute("select * from thermocline_lake.numbers where _snapshot = 1")


def test_cursors_of_a_direct_client_fetch_in_pieces_and_rewind(numbers: Any, client: psycopg.Connection[Any]) -> None:
    with client.transaction():
        client.execute(_cursor_over(numbers))
        assert [row[0] for row in client.execute("fetch 3 from c1").fetchall()] == [0, 1, 2]
        assert [row[0] for row in client.execute("fetch 4 from c1").fetchall()] == [3, 4, 5, 6]
        client.execute("move backward all in c1")
        assert len(client.execute("fetch 100 from c1").fetchall()) == 10
        assert client.execute("fetch 100 from c1").fetchall() == []
        client.execute("close c1")
        with pytest.raises(psycopg.errors.InvalidCursorName), client.transaction():
            client.execute("fetch 1 from c1")


def test_a_cursor_needs_a_transaction(numbers: Any, client: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        client.execute(_cursor_over(numbers))


def test_after_an_error_a_transaction_waits_for_its_savepoint(numbers: Any, client: psycopg.Connection[Any]) -> None:
    client.execute("start transaction isolation level repeatable read")
    client.execute("savepoint s2")
    with pytest.raises(psycopg.Error):
        client.execute("select nothing")
    assert client.info.transaction_status.name == "INERROR"
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        client.execute("savepoint s3")
    client.execute("rollback to savepoint s2; release savepoint s2")
    assert client.info.transaction_status.name == "INTRANS"
    client.execute("commit transaction")
    assert client.info.transaction_status.name == "IDLE"


def test_subtransactions_of_postgres_reach_the_gateway(numbers: Any) -> None:
    query, snapshot = "select count(*) from thermocline_lake.numbers where _snapshot = %s", _snapshot(numbers)
    with numbers.conn.transaction():
        assert numbers.conn.execute(query, (snapshot,)).fetchone() == (10,)
        with pytest.raises(psycopg.Error), numbers.conn.transaction():
            numbers.conn.execute(query, (1,))
        assert numbers.conn.execute(query, (snapshot,)).fetchone() == (10,)


def test_nested_loops_rescan_the_foreign_table(numbers: Any) -> None:
    conn = numbers.conn
    conn.execute("create table keys as select generate_series(0, 9, 2) k")
    for setting in ("enable_hashjoin", "enable_mergejoin", "enable_material"):
        conn.execute(f"set {setting} = off")
    query = "select k, l.id from keys left join thermocline_lake.numbers l on l.id = k and _snapshot = %s order by k"
    assert conn.execute(query, (_snapshot(numbers),)).fetchall() == [(k, k) for k in range(0, 10, 2)]


def test_prepared_generic_plans_send_parameters(numbers: Any) -> None:
    conn, snapshot = numbers.conn, _snapshot(numbers)
    conn.execute("set plan_cache_mode = force_generic_plan")
    conn.execute(
        "prepare q(bigint, bigint) as select id from thermocline_lake.numbers where id < $1 and _snapshot = "
        "$2 order by id"
    )
    assert conn.execute(f"execute q(3, {snapshot})").fetchall() == [(0,), (1,), (2,)]
    assert conn.execute("execute q(3, null)").fetchall() == []


def test_a_statement_outside_the_closed_set_is_refused_and_the_session_goes_on(
    numbers: Any, client: psycopg.Connection[Any]
) -> None:
    snapshot = _snapshot(numbers)
    for text in (
        "drop table public.numbers",
        "select 1",
        "select * from pg_catalog.pg_authid",
        f"select pg_read_file('/etc/passwd') from public.numbers where _snapshot = {snapshot}",
        f"select id from public.numbers where _snapshot = {snapshot} for update",
        "select )(",
        "with x as (select 1) select * from x",
        "set timezone = 'Asia/Tokyo'",
    ):
        with pytest.raises(psycopg.Error) as problem:
            client.execute(text)
        assert problem.value.sqlstate in ("0A000", "42P01"), text
    assert client.execute("select count(*) from public.numbers where _snapshot = %s", (snapshot,)).fetchone() == (10,)


def test_a_missing_data_file_is_an_error_that_names_the_lake(numbers: Any) -> None:
    numbers.lake.files("numbers")[0].unlink()
    with pytest.raises(psycopg.Error, match="TC501") as problem:
        numbers.conn.execute("select * from thermocline_lake.numbers where _snapshot = %s", (_snapshot(numbers),))
    assert problem.value.sqlstate == "58030"


def test_a_corrupt_data_file_is_an_error_and_the_gateway_goes_on(numbers: Any) -> None:
    bad = numbers.lake.files("numbers")[0]
    good = numbers.lake.append("numbers", _rows(100, 5))
    data = bytearray(bad.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    bad.write_bytes(data)
    with pytest.raises(psycopg.Error, match="TC501"):
        numbers.conn.execute("select id, note from thermocline_lake.numbers where _snapshot = %s", (good,))
    found = numbers.conn.execute(
        "select count(*) from thermocline_lake.numbers where _snapshot = %s and id >= 100", (good,)
    ).fetchone()
    assert found == (5,)


def test_garbage_bytes_close_that_connection_only(numbers: Any, client: psycopg.Connection[Any]) -> None:
    for garbage in (
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ii", 8, 77),
        struct.pack(">i", 2**31 - 1),
        b"\0\0\0\x09\0\3\0\0x",
    ):
        with socket.create_connection(("127.0.0.1", numbers.gateway.port), timeout=5) as raw:
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    assert client.execute(
        "select count(*) from public.numbers where _snapshot = %s", (_snapshot(numbers),)
    ).fetchone() == (10,)


def test_a_cancel_request_stops_a_statement_within_a_second(numbers: Any, client: psycopg.Connection[Any]) -> None:
    snapshot = numbers.lake.append("numbers", _rows(1000, 2_000_000))
    # cancel_safe: the plain cancel keeps the interpreter to itself, and the gateway of this test lives in the same one.
    timer = threading.Timer(0.2, client.cancel_safe)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        client.execute("select id, note from public.numbers where _snapshot = %s order by note, id desc", (snapshot,))
    timer.join()
    assert client.execute("select count(*) from public.numbers where _snapshot = %s", (snapshot,)).fetchone() == (
        2_000_010,
    )


def test_a_client_that_stops_reading_holds_up_nobody_else(numbers: Any, client: psycopg.Connection[Any]) -> None:
    snapshot = numbers.lake.append("numbers", _rows(1000, 1_000_000))
    with closing(psycopg.connect(numbers.direct_dsn(), autocommit=True)) as slow:
        slow.pgconn.send_query(b"select id, note from public.numbers where _snapshot = %d" % snapshot)
        slow.pgconn.flush()
        for _ in range(20):
            assert client.execute(
                "select id from public.numbers where _snapshot = %s and id = 5", (snapshot,)
            ).fetchall() == [(5,)]


def test_postgres_gets_an_error_when_the_gateway_dies_and_works_again_when_it_is_back(numbers: Any) -> None:
    query, snapshot = "select count(*) from thermocline_lake.numbers where _snapshot = %s", _snapshot(numbers)
    assert numbers.conn.execute(query, (snapshot,)).fetchone() == (10,)
    numbers.gateway.stop()
    with pytest.raises(psycopg.OperationalError, match="connect"):
        numbers.conn.execute(query, (snapshot,))
    again = type(numbers.gateway)(numbers.gateway.config).start()
    try:
        numbers.conn.execute(f"alter server thermocline_gateway options (set port '{again.port}')")
        assert numbers.conn.execute(query, (snapshot,)).fetchone() == (10,)
    finally:
        again.stop()
