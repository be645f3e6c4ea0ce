"""The passwords by which Postgres logs in at the gateway: who may read them, and how they are changed."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.twin import Spanning

from thermocline.gateway.config import GatewayConfig, read_certificate
from thermocline.gateway.server import start_in_thread
from thermocline.runtime.certificates import keep_certificate
from thermocline.runtime.pg import connect_as_typed as connect

COLD = "select count(*) from events where ts < '2026-02-01'"


def _mapping(conn: psycopg.Connection[Any]) -> dict[str, str] | None:
    row = conn.execute("select umoptions from pg_user_mappings where srvname = 'thermocline_gateway'").fetchone()
    assert row is not None
    return None if row[0] is None else dict(option.split("=", 1) for option in row[0])


def _log_in(spanning: Spanning, mapping: dict[str, str]) -> None:
    psycopg.connect(
        make_conninfo(
            host="127.0.0.1",
            port=spanning.gateway.port,
            dbname="lake",
            user=mapping["user"],
            password=mapping["password"],
        )
    ).close()


def _rotate(spanning: Spanning) -> str:
    environment = {
        **os.environ,
        "THERMOCLINE_DSN": spanning.dsn,
        "THERMOCLINE_GATEWAY_LISTEN": f"127.0.0.1:{spanning.gateway.port}",
    }
    command = [sys.executable, "-m", "thermocline", "init", "--rotate-logins", "--dir", str(spanning.settings.dir)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.conforms("O-111")
def test_gateway_passwords_are_their_owners_alone_and_change_with_one_command(spanning: Spanning) -> None:
    spanning.tier()
    spanning.both(COLD)
    with connect(spanning.dsn, autocommit=True) as conn:
        old = _mapping(conn)
        server = conn.execute("select oid from pg_foreign_server where srvname = 'thermocline_gateway'").fetchone()
        conn.execute("create role nosy login password 'nosy'")
        try:
            with connect(make_conninfo(spanning.dsn, user="nosy", password="nosy"), autocommit=True) as other:
                assert _mapping(other) is None
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    other.execute("select * from thermocline.gateway_logins")
        finally:
            conn.execute("drop role nosy")
        assert old is not None
        _log_in(spanning, old)
        told = _rotate(spanning)
        new = _mapping(conn)
        assert new is not None
        assert new["password"] != old["password"]
        assert new["password"] not in told
        assert (
            conn.execute("select oid from pg_foreign_server where srvname = 'thermocline_gateway'").fetchone() == server
        )
    spanning.both(COLD)
    _log_in(spanning, new)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        _log_in(spanning, old)
    with spanning.session(autocommit=True) as fresh:
        assert fresh.execute(COLD.encode()).fetchone() == (123,)


OUTSIDE_THE_CLOSED_SET = (
    "create table public.made_here (id int)",
    "insert into public.events values (1)",
    "drop table public.events",
    "select pg_sleep(0)",
    "select * from pg_catalog.pg_authid",
    "copy public.events from stdin",
    "do $$ begin perform 1; end $$",
    "listen something",
)


@pytest.mark.conforms("O-097")
def test_postgres_comes_with_password_and_tls_to_a_closed_set_and_a_person_with_the_persons_own_rights(
    spanning: Spanning,
) -> None:
    spanning.tier()
    home = Path(spanning.query("select current_setting('data_directory')")[0][0])
    cert, key = keep_certificate(home, "gateway_test", ("127.0.0.1",), now=dt.datetime.now(dt.UTC))
    config = GatewayConfig(dsn=spanning.dsn, certificate=read_certificate(cert, key), tls_required=True)
    with start_in_thread(spanning.dsn, config=config) as gateway, connect(spanning.dsn, autocommit=True) as conn:
        change = sql.SQL(
            "alter server thermocline_gateway options (set port {}, add sslmode 'verify-full', add sslrootcert {})"
        )
        conn.execute(change.format(sql.Literal(str(gateway.port)), sql.Literal(cert.name)))
        spanning.both(COLD)
        spanning.assert_same_rows()
        mapping = _mapping(conn)
        assert mapping is not None
        place = make_conninfo(
            spanning.dsn, host="127.0.0.1", port=gateway.port, sslmode="verify-full", sslrootcert=str(cert)
        )
        with psycopg.connect(make_conninfo(place, dbname="lake", **mapping), autocommit=True) as machine:
            for statement in OUTSIDE_THE_CLOSED_SET:
                with pytest.raises(psycopg.Error) as refused:
                    machine.execute(statement.encode())
                assert refused.value.sqlstate in ("0A000", "42P01"), statement
        assert conn.execute(
            "select to_regclass('public.made_here'), to_regclass('public.events')::text"
        ).fetchone() == (None, "events")
        _check_person(spanning, conn, place)


def _check_person(spanning: Spanning, conn: psycopg.Connection[Any], place: str) -> None:
    conn.execute("create role visitor login password 'visiting'")
    conn.execute("grant select on public_all.events to visitor")
    try:
        with psycopg.connect(place, user="visitor", password="visiting", autocommit=True) as person:
            person.execute("set thermocline.engine = duckdb")
            counted = "select count(*), sum(v), max(ts) from public_all.events"
            expected = spanning.twin.execute("select count(*), sum(v), max(ts) from events").fetchone()
            assert person.execute(counted.encode()).fetchone() == expected
            person.execute("set thermocline.engine = auto")
            for statement in ("select * from twin.events", "delete from public_all.events", "select * from pg_authid"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    person.execute(statement.encode())
    finally:
        conn.execute("drop owned by visitor")
        conn.execute("drop role visitor")
