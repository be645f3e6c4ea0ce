"""The embedded Postgres and the connections to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from thermocline.errors import BadDsn, PortTaken, PostgresNotStarted, PostgresUnreachable, PostgresVersionUnsupported
from thermocline.runtime import pg
from thermocline.runtime.postgres_server import (
    FAST_TEST_SETTINGS,
    RELOCATED_ROOT,
    PostgresServer,
    free_port,
    server_user,
)

START_AND_WAIT = """
import sys, time
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer
server = PostgresServer(sys.argv[1], int(sys.argv[2]), FAST_TEST_SETTINGS, password="x")
server.init(); server.start(); print(server.pid, flush=True); time.sleep(600)
"""


def test_it_speaks_utf8_in_a_fixed_locale_and_has_postgres_fdw(server: PostgresServer) -> None:
    with pg.connect(server.dsn()) as conn:
        assert pg.check_version(conn) == 18
        row = conn.execute(
            "select current_setting('server_encoding'), datlocprovider, datlocale from pg_database where "
            "datname = 'template0'"
        )
        assert row.fetchone() == ("UTF8", "b", "C.UTF-8")
        assert conn.execute("select 1 from pg_available_extensions where name = 'postgres_fdw'").fetchone() == (1,)


def test_what_was_committed_is_there_after_a_stop_and_a_start(scratch: Path) -> None:
    first = PostgresServer(scratch / "again", free_port(), FAST_TEST_SETTINGS, password="x")
    try:
        first.init()
        first.start()
        with psycopg.connect(first.dsn()) as conn:
            conn.execute("create table kept as select 42 as answer")
        first.stop()
        second = PostgresServer(scratch / "again", free_port(), FAST_TEST_SETTINGS, password="x")
        second.init()
        second.start()
        with psycopg.connect(second.dsn()) as conn:
            assert conn.execute("select answer from kept").fetchone() == (42,)
        second.stop("immediate")
    finally:
        first.remove()


def test_root_runs_it_as_another_user_wherever_the_directory_is(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    server = PostgresServer(hidden / "cluster", free_port(), FAST_TEST_SETTINGS, password="x")
    try:
        server.init()
        server.start()
        assert server.pid is not None
        owner = psutil.Process(server.pid).username()
        if os.geteuid() == 0:
            assert owner == server_user()
            assert (hidden / "cluster").is_symlink()
            assert (hidden / "cluster").resolve().parent == RELOCATED_ROOT
        else:
            assert owner == psutil.Process().username()
        place = (hidden / "cluster").resolve()
    finally:
        server.remove()
    assert not place.exists()


def test_it_ends_when_its_parent_is_killed(scratch: Path) -> None:
    port = free_port()
    place = scratch / "orphan"
    parent = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(place), str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        postmaster = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        postmaster.wait(timeout=30)
        assert not postmaster.is_running()
    finally:
        parent.kill()
        if parent.stdout is not None:
            parent.stdout.close()
        PostgresServer(place, port, password="x").remove()


def test_a_taken_port_is_refused_with_its_number(scratch: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        server = PostgresServer(scratch / "taken", port, password="x")
        with pytest.raises(PortTaken, match=f"Port {port} on 127.0.0.1 is taken by another program"):
            server.start()


def test_a_server_that_cannot_start_says_why(scratch: Path) -> None:
    server = PostgresServer(scratch / "bad", free_port(), {"shared_buffers": "none at all"}, password="x")
    try:
        server.init()
        with pytest.raises(PostgresNotStarted, match='invalid value for parameter "shared_buffers"') as caught:
            server.start()
        assert str(server.log_path) in caught.value.hint
    finally:
        server.remove()


def test_every_connection_has_the_settings_that_fix_the_text_form(server: PostgresServer) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("alter role postgres set timezone = 'Asia/Tokyo'")
        conn.execute("alter role postgres set datestyle = 'German'")
    with pg.connect(server.dsn(), application_name="a test") as conn:
        text = conn.execute(
            "select '2024-02-03 04:05:06+00'::timestamptz::text, current_setting('application_name')"
        ).fetchone()
        assert text == ("2024-02-03 04:05:06+00", "a test")
        conn.rollback()
        assert conn.execute("show timezone").fetchone() == ("UTC",)


def test_the_endpoint_is_what_libpq_resolved_passfile_included(server: PostgresServer, tmp_path: Path) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text("127.0.0.1:*:*:postgres:a\\:b\\\\c 'd\n")
    passfile.chmod(0o600)
    with pg.connect(f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres passfile={passfile}") as conn:
        endpoint = pg.read_endpoint(conn)
    assert endpoint == pg.Endpoint(
        host="127.0.0.1", port=server.port, dbname="postgres", user="postgres", password=server.password
    )
    assert server.password not in repr(endpoint)


@pytest.mark.conforms("O-005")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": "hunter2"}, "password authentication failed"),
        ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
        ({"port": 1}, "Connection refused"),
        ({"host": "no.such.host.invalid"}, "no.such.host.invalid"),
    ],
)
def test_a_wrong_dsn_is_refused_with_the_place_and_without_the_password(
    server: PostgresServer, change: dict[str, str | int], reason: str
) -> None:
    dsn = psycopg.conninfo.make_conninfo(server.dsn(), **change)
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    with pytest.raises(PostgresUnreachable) as caught:
        pg.connect(dsn)
    sentence = str(caught.value)
    assert f"host {parts['host']}, port {parts['port']}, database {parts['dbname']}, role postgres" in sentence
    assert reason in sentence
    assert str(parts["password"]) not in sentence


@pytest.mark.conforms("O-005")
def test_a_server_that_never_answers_is_given_up_within_the_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        with pytest.raises(PostgresUnreachable, match="timeout"):
            pg.connect(f"host=127.0.0.1 port={silent.getsockname()[1]} user=u dbname=d", connect_timeout_seconds=2)
        assert time.monotonic() - started < 10


def test_a_dsn_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BadDsn):
        pg.connect("not a dsn")


def test_a_postgres_that_is_too_old_is_refused_with_its_version(scratch: Path) -> None:
    old = PostgresServer(scratch / "old", free_port(), FAST_TEST_SETTINGS, password="x", version="13.23.0")
    try:
        old.init()
        old.start()
        with (
            pg.connect(old.dsn()) as conn,
            pytest.raises(PostgresVersionUnsupported, match=r"Postgres 13 .* is not supported; 14 to 18 are"),
        ):
            pg.check_version(conn)
    finally:
        old.remove()
