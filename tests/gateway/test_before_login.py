"""Clients that have not logged in: little is read of them, not for long, and they count as connections."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.server import GatewayThread, start_in_thread


@pytest.fixture
def small(shared_site: Any) -> Iterator[GatewayThread]:
    """Four connections, three of one address; a startup message within a second, a login within three."""
    config = GatewayConfig(
        dsn=shared_site.dsn,
        max_connections=4,
        max_connections_per_address=3,
        startup_timeout_seconds=1,
        login_timeout_seconds=3,
    )
    with start_in_thread(shared_site.dsn, config=config) as gateway:
        yield gateway


def _open(gateway: GatewayThread, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=20, source_address=(address, 0))


def _read_until_closed(line: socket.socket) -> bytes:
    heard = b""
    try:
        while piece := line.recv(65_536):
            heard += piece
    except ConnectionError:
        pass
    return heard


def _startup(user: str, database: str) -> bytes:
    body = struct.pack(">i", 196_608) + f"user\0{user}\0database\0{database}\0\0".encode()
    return struct.pack(">i", len(body) + 4) + body


def test_connections_without_a_startup_message_count_and_are_closed_within_seconds(
    shared_site: Any, small: GatewayThread
) -> None:
    dsn = make_conninfo(shared_site.direct_dsn(), port=small.port)
    with ExitStack() as silent:
        lines = [silent.enter_context(_open(small)) for _ in range(3)]
        time.sleep(0.2)
        with pytest.raises(psycopg.OperationalError, match="too many connections to the gateway from this address"):
            psycopg.connect(dsn)
        started = time.monotonic()
        assert [_read_until_closed(line) for line in lines] == [b""] * 3
        assert time.monotonic() - started < 10
    with closing(psycopg.connect(dsn)):
        pass


def test_another_address_finds_a_slot_and_a_statement_is_cancelled_when_all_are_taken(
    shared_site: Any, small: GatewayThread
) -> None:
    dsn = make_conninfo(shared_site.dsn, host="127.0.0.1", port=small.port)
    with ExitStack() as opened:
        mine = [opened.enter_context(closing(psycopg.connect(dsn, autocommit=True))) for _ in range(3)]
        with pytest.raises(psycopg.OperationalError, match="from this address"):
            psycopg.connect(dsn)
        other = opened.enter_context(_open(small, "127.0.0.2"))
        other.sendall(_startup("postgres", "lake"))
        assert other.recv(1) == b"R"
        stopper = threading.Timer(0.5, mine[0].cancel_safe)
        stopper.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            mine[0].execute("select pg_sleep(60)")
        stopper.join()


@pytest.mark.parametrize("database", ["lake", None], ids=["lake", "relayed"])
@pytest.mark.parametrize("length", [65_537, 1_000_000, 2_000_000_000])
def test_a_login_message_has_at_most_64_kilobytes(
    shared_site: Any, small: GatewayThread, database: str | None, length: int
) -> None:
    name = database or str(conninfo_to_dict(shared_site.dsn)["dbname"])
    with _open(small) as line:
        line.sendall(_startup("postgres", name))
        assert line.recv(1) == b"R"
        line.sendall(b"p" + struct.pack(">i", length) + b"x" * 1_000)
        assert b"08P01" in _read_until_closed(line)


@pytest.mark.parametrize("database", ["lake", None], ids=["lake", "relayed"])
def test_a_login_ends_within_seconds(shared_site: Any, small: GatewayThread, database: str | None) -> None:
    name = database or str(conninfo_to_dict(shared_site.dsn)["dbname"])
    with _open(small) as line:
        line.sendall(_startup("postgres", name))
        started = time.monotonic()
        assert _read_until_closed(line)[:1] == b"R"
        assert time.monotonic() - started < 15
