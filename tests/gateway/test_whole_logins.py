"""A person's login when Postgres speaks TLS, and when Postgres asks for no password at all."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from thermocline.gateway.config import GatewayConfig, read_certificate
from thermocline.gateway.server import start_in_thread
from thermocline.runtime.certificates import keep_certificate

NAMES = ("127.0.0.1", "localhost")


@pytest.fixture
def data(shared_site: Any) -> Path:
    (place,) = shared_site.conn.execute("show data_directory").fetchone()
    return Path(place)


@contextmanager
def settings(conn: psycopg.Connection[Any], **changes: str) -> Iterator[None]:
    """Server settings, taken back at the end."""
    for name, value in changes.items():
        conn.execute(f"alter system set {name} = '{value}'".encode())
    conn.execute("select pg_reload_conf(), pg_sleep(0.5)")
    try:
        yield
    finally:
        for name in changes:
            conn.execute(f"alter system reset {name}".encode())
        conn.execute("select pg_reload_conf(), pg_sleep(0.5)")


@contextmanager
def role(conn: psycopg.Connection[Any], name: str, password: str) -> Iterator[None]:
    conn.execute(f"create role {name} login password '{password}'".encode())
    try:
        yield
    finally:
        conn.execute(f"drop role {name}".encode())


def test_a_login_works_with_tls_on_either_side_and_on_both(shared_site: Any, data: Path, tmp_path: Path) -> None:
    certificate, key = keep_certificate(tmp_path, "postgres", NAMES, now=dt.datetime.now(dt.UTC))
    for file in (certificate, key):
        shutil.copy(file, data / file.name)
        os.chown(data / file.name, data.stat().st_uid, data.stat().st_gid)
        (data / file.name).chmod(0o600)
    conn = shared_site.conn
    theirs = read_certificate(*keep_certificate(tmp_path, "gateway", NAMES, now=dt.datetime.now(dt.UTC)))
    with (
        role(conn, "tessa", "in secret"),
        settings(conn, ssl="on", ssl_cert_file=certificate.name, ssl_key_file=key.name),
    ):
        for mode in ("disable", "require", "verify-full"):
            dsn = make_conninfo(
                shared_site.dsn, sslmode=mode, **({"sslrootcert": str(certificate)} if mode == "verify-full" else {})
            )
            with start_in_thread(dsn, config=GatewayConfig(dsn=dsn, certificate=theirs)) as gateway:
                for client in ("disable", "require"):
                    asked = make_conninfo(
                        shared_site.dsn, port=gateway.port, user="tessa", password="in secret", sslmode=client
                    )
                    with closing(psycopg.connect(asked)) as tessa:
                        found = tessa.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone()
                        assert found == (mode != "disable",)
                        assert tessa.pgconn.ssl_in_use == (client == "require")
                    with pytest.raises(
                        psycopg.OperationalError, match='password authentication failed for user "tessa"'
                    ):
                        psycopg.connect(asked, password="guessed")


def test_a_postgres_that_asks_for_no_password_lets_nobody_in_through_the_gateway(shared_site: Any, data: Path) -> None:
    conn, rules = shared_site.conn, data / "pg_hba.conf"
    before = rules.read_text()
    with role(conn, "trusty", "unused"):
        rules.write_text("host all trusty 127.0.0.1/32 trust\n" + before)
        try:
            conn.execute("select pg_reload_conf(), pg_sleep(0.5)")
            with closing(psycopg.connect(make_conninfo(shared_site.dsn, user="trusty"))) as direct:
                assert direct.execute("select current_user").fetchone() == ("trusty",)
            with pytest.raises(psycopg.OperationalError, match="cannot be checked here"):
                psycopg.connect(make_conninfo(shared_site.dsn, port=shared_site.gateway.port, user="trusty"))
        finally:
            rules.write_text(before)
            conn.execute("select pg_reload_conf(), pg_sleep(0.5)")
