"""A person's own login at the gateway: Postgres decides, and everything that is no whole query is Postgres' own
answer."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.gateway.jdbc import java_command


@pytest.fixture(scope="module")
def person(shared_site: Any) -> Iterator[str]:
    """The DSN of an ordinary role, through the gateway."""
    parts = conninfo_to_dict(shared_site.dsn)
    shared_site.conn.execute("create role ann login password 'ann''s own'")
    shared_site.conn.execute("create table public.things (id int primary key, name text default 'x')")
    shared_site.conn.execute("grant select, insert, update, delete on public.things to ann")
    yield make_conninfo(
        host="127.0.0.1", port=shared_site.gateway.port, user="ann", password="ann's own", dbname=parts["dbname"]
    )
    shared_site.conn.execute("drop owned by ann")
    shared_site.conn.execute("drop role ann")


@pytest.fixture
def relayed(person: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(person) as conn:
        yield conn


def test_a_person_is_let_in_by_postgres_with_the_persons_own_role_and_parameters(
    relayed: psycopg.Connection[Any],
) -> None:
    assert relayed.execute("select current_user, session_user").fetchone() == ("ann", "ann")
    assert relayed.info.server_version // 10000 == 18
    assert relayed.info.parameter_status("is_superuser") == "off"
    relayed.execute("set application_name = 'somebody'")
    assert relayed.info.parameter_status("application_name") == "somebody"


def test_a_wrong_password_is_refused_in_postgres_own_words(person: str) -> None:
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "ann"'):
        psycopg.connect(person, password="wrong")
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "nobody"'):
        psycopg.connect(person, user="nobody")
    with pytest.raises(psycopg.OperationalError, match='database "nowhere" does not exist'):
        psycopg.connect(person, dbname="nowhere")


def test_transactions_savepoints_errors_and_notices_are_postgres_own(relayed: psycopg.Connection[Any]) -> None:
    heard: list[str] = []
    relayed.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    with relayed.transaction():
        relayed.execute("insert into things values (1), (2)")
        with pytest.raises(psycopg.errors.UniqueViolation), relayed.transaction():
            relayed.execute("insert into things values (2)")
        relayed.execute("do $$ begin raise notice 'heard'; end $$")
        assert relayed.execute("select count(*) from things where id > %s", (0,)).fetchone() == (2,)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table gateway_logins"):
        relayed.execute("select * from thermocline.gateway_logins")
    relayed.rollback()
    assert heard == ["heard"]
    relayed.execute("delete from things")
    relayed.commit()


def test_copy_runs_in_both_directions_and_a_failed_one_leaves_the_session_well(
    relayed: psycopg.Connection[Any],
) -> None:
    with relayed.cursor() as cursor:
        with cursor.copy("copy things (id, name) from stdin") as copy:
            for number in range(50_000):
                copy.write_row((number, f"name {number}"))
        with cursor.copy("copy (select id from things order by id) to stdout") as copy:
            assert [row[0] for row in copy.rows()] == [str(number) for number in range(50_000)]
        with (
            pytest.raises(psycopg.errors.BadCopyFileFormat),
            relayed.transaction(),
            cursor.copy("copy things from stdin") as copy,
        ):
            copy.write(b"not\ta\tthing\n")
        assert cursor.execute("select count(*) from things").fetchone() == (50_000,)
    relayed.rollback()


def test_a_large_value_passes_in_both_directions(relayed: psycopg.Connection[Any]) -> None:
    large = "ä" * 3_000_000
    assert relayed.execute("select %s::text", (large,)).fetchone() == (large,)
    assert relayed.execute(
        "select count(*) from (select repeat('x', 100000) from generate_series(1, 20)) t"
    ).fetchone() == (20,)
    assert len(relayed.execute("select repeat('x', 1000000) from generate_series(1, 20)").fetchall()) == 20


def test_a_notification_arrives_while_the_client_waits(person: str) -> None:
    with psycopg.connect(person, autocommit=True) as listener, psycopg.connect(person, autocommit=True) as teller:
        listener.execute("listen news")
        teller.execute("notify news, 'one'")
        assert [note.payload for note in listener.notifies(timeout=10, stop_after=1)] == ["one"]


def test_a_cancel_reaches_the_statement_that_postgres_runs(relayed: psycopg.Connection[Any]) -> None:
    threading.Timer(0.3, relayed.cancel_safe).start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        relayed.execute("select pg_sleep(60)")
    relayed.rollback()
    assert relayed.execute("select 1").fetchone() == (1,)


def test_pipelines_and_server_side_cursors_work(relayed: psycopg.Connection[Any]) -> None:
    with relayed.pipeline():
        answers = [relayed.execute("select %s::int", (number,)) for number in range(200)]
    assert [answer.fetchone() for answer in answers] == [(number,) for number in range(200)]
    with relayed.cursor("walk") as cursor:
        cursor.execute("select generate_series(1, 5000)")
        assert sum(row[0] for row in cursor) == 5000 * 5001 // 2


def test_a_session_that_postgres_ends_ends_at_the_gateway_too(person: str, shared_site: Any) -> None:
    with psycopg.connect(person, autocommit=True) as conn:
        pid = conn.execute("select pg_backend_pid()").fetchone()
        shared_site.conn.execute("select pg_terminate_backend(%s)", pid)
        with pytest.raises(psycopg.OperationalError):
            conn.execute("select 1")


def test_the_closed_set_stays_closed_for_the_foreign_servers_login(shared_site: Any) -> None:
    with (
        psycopg.connect(shared_site.direct_dsn(), autocommit=True) as conn,
        pytest.raises(psycopg.errors.FeatureNotSupported),
    ):
        conn.execute("create table x ()")


def test_psql_describes_tables_through_the_gateway(person: str, shared_site: Any) -> None:
    for command in (r"\dt", r"\d things", r"\d+ things", r"\dn", r"\df pg_catalog.abs", r"\du ann"):
        here, there = (
            subprocess.run(
                ["psql", "-X", "-c", command, dsn], capture_output=True, text=True, check=True, timeout=60
            ).stdout
            for dsn in (person, make_conninfo(shared_site.dsn, user="ann", password="ann's own"))
        )
        assert here == there
        assert here


METADATA = """
import java.sql.*;
public class Crawl {
    public static void main(String[] args) throws Exception {
        try (Connection conn = DriverManager.getConnection(args[0], "ann", "ann's own")) {
            DatabaseMetaData data = conn.getMetaData();
            int seen = 0;
            for (ResultSet rows : new ResultSet[] {
                    data.getTables(null, "public", "%", null), data.getColumns(null, "public", "things", "%"),
                    data.getPrimaryKeys(null, "public", "things"),
                    data.getIndexInfo(null, "public", "things", false, true),
                    data.getSchemas(), data.getTypeInfo(), data.getTablePrivileges(null, "public", "things")}) {
                while (rows.next()) seen++;
                System.out.println(rows.getMetaData().getColumnCount() + " " + seen);
            }
        }
    }
}
"""


def test_a_crawl_of_jdbc_metadata_sees_what_it_sees_in_postgres(person: str, shared_site: Any, tmp_path: Path) -> None:
    command = java_command(tmp_path, "Crawl", METADATA)
    parts = conninfo_to_dict(shared_site.dsn)
    heard = [
        subprocess.run(
            [*command, f"jdbc:postgresql://127.0.0.1:{port}/{parts['dbname']}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for port in (shared_site.gateway.port, parts["port"])
    ]
    assert heard[0] == heard[1]
    assert len(heard[0].splitlines()) == 7
