"""The passwords by which Postgres logs in at the gateway: who may read them, and how they are changed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.twin import Spanning

from thermocline.pg import connect

COLD = "select count(*) from events where ts < '2026-02-01'"


def _mapping(conn: psycopg.Connection[Any]) -> dict[str, str] | None:
    row = conn.execute("select umoptions from pg_user_mappings where srvname = 'thermocline_gateway'").fetchone()
    assert row is not None
    return None if row[0] is None else dict(option.split("=", 1) for option in row[0])


def _log_in(spanning: Spanning, mapping: dict[str, str]) -> None:
    psycopg.connect(
        make_conninfo(host="127.0.0.1", port=spanning.gateway.port, dbname="lake", user=mapping["user"], password=mapping["password"])
    ).close()


def _rotate(spanning: Spanning) -> str:
    environment = {**os.environ, "THERMOCLINE_DSN": spanning.dsn, "THERMOCLINE_GATEWAY_LISTEN": f"127.0.0.1:{spanning.gateway.port}"}
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
        assert conn.execute("select oid from pg_foreign_server where srvname = 'thermocline_gateway'").fetchone() == server
    spanning.both(COLD)
    _log_in(spanning, new)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        _log_in(spanning, old)
    with spanning.session(autocommit=True) as fresh:
        assert fresh.execute(COLD.encode()).fetchone() == (123,)
