"""What a session keeps of its statements is bounded by bytes."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import generators
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType
from tests.gateway.whole_lake import person
from tests.twin import Spanning


def _prepare(conn: psycopg.Connection[Any], name: str, text: str) -> str | None:
    """Prepare a statement; the SQLSTATE of its error."""
    conn.pgconn.send_prepare(name.encode(), text.encode())
    found = conn.wait(generators.execute(conn.pgconn))[-1].error_field(psycopg.pq.DiagnosticField.SQLSTATE)
    return found.decode() if found else None


def test_a_lake_session_keeps_so_many_bytes_of_statements_and_goes_on(client: psycopg.Connection[Any]) -> None:
    text = f"select id from public.numbers where note <> '{'x' * 15_000_000}'"
    states = [_prepare(client, f"s{number}", text) for number in range(12)]
    assert states[:8] == [None] * 8
    assert states[-1] == "53200"
    for number in range(50):
        assert _prepare(client, "same" if number else "s0", f"select {number}") is None
    client.execute("deallocate all")
    assert _prepare(client, "again", text) is None


def test_a_relayed_statement_whose_text_was_forgotten_runs_in_postgres(lake: Spanning) -> None:
    with person(lake) as conn:
        counted = "select count(*) from public_all.events"
        assert _prepare(conn, "first", counted) is None
        for number in range(8):
            assert _prepare(conn, f"s{number}", f"select '{'x' * 900_000}', {number}") is None
        conn.pgconn.send_query_prepared(b"first", [])
        (row,) = conn.wait(generators.execute(conn.pgconn))
        assert row.get_value(0, 0) == str(lake.twin.execute("select count(*) from events").fetchall()[0][0]).encode()


def test_a_statement_prepared_again_under_its_name_is_the_new_one(lake: Spanning) -> None:
    with person(lake) as conn:
        for number in (1, 2, 3):
            assert _prepare(conn, "", "select 1") is None
            conn.execute("deallocate all")
            assert _prepare(conn, "same", f"select count(*) + {number} from public_all.events") is None
            conn.pgconn.send_query_prepared(b"same", [])
            (row,) = conn.wait(generators.execute(conn.pgconn))
            expected = lake.twin.execute("select count(*) from events").fetchall()[0][0] + number
            assert row.get_value(0, 0) == str(expected).encode()


def test_texts_of_open_cursors_count(site: Any, client: psycopg.Connection[Any]) -> None:
    site.lake.create("numbers", Schema(NestedField(1, "note", StringType(), required=False)))
    condition = f"_snapshot = null and note <> '{'x' * 15_000_000}'"

    def declare(count: int) -> None:
        for number in range(count):
            client.execute(f"declare c{number} cursor for select note from public.numbers where {condition}".encode())

    client.execute("begin")
    with pytest.raises(psycopg.errors.OutOfMemory, match="keeps too many"):
        declare(10)
    client.execute("rollback")
    client.execute("begin")
    declare(2)
    client.execute("commit")
