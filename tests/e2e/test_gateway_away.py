"""The seam while the gateway cannot be reached: stopped, or behind a network that drops every packet."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from tests.e2e.gateway_queries import count_gateway_queries
from tests.twin import Spanning

from thermocline.gateway.server import start_in_thread

HOT = "select count(*) from events where ts >= '2026-04-01'"
COLD = "select count(*) from events where ts < '2026-02-01'"
_ATTACH_FILTER, _DETACH_FILTER = 26, 27


@pytest.fixture
def tiered(spanning: Spanning) -> Spanning:
    spanning.tier()
    return spanning


def _point_at(spanning: Spanning, port: str, host: str = "127.0.0.1") -> None:
    change = sql.SQL("alter server thermocline_gateway options (set host {}, set port {})")
    spanning.seam.execute(change.format(sql.Literal(host), sql.Literal(port)))


def test_a_condition_that_proves_the_hot_side_asks_the_gateway_nothing(tiered: Spanning) -> None:
    tiered.both(COLD)
    before = count_gateway_queries()
    tiered.both(HOT)
    tiered.both("select * from events where ts between '2026-04-03' and '2026-04-20' and v > 3")
    for day in range(1, 13):
        query, value = "select count(*) from events where ts >= %s::timestamptz", f"2026-04-{day:02d}"
        found = tiered.seam.execute(query, (value,), prepare=True).fetchone()
        assert found == tiered.twin.execute(query, (value,)).fetchone()
    assert count_gateway_queries() == before
    tiered.both(COLD)
    assert count_gateway_queries() > before


@pytest.mark.conforms("O-104")
def test_without_a_gateway_hot_queries_answer_and_others_fail_with_a_connection_error(tiered: Spanning) -> None:
    tiered.both(COLD)
    tiered.gateway.stop()
    tiered.both(HOT)
    with pytest.raises(psycopg.OperationalError, match="could not connect to server") as refused:
        tiered.seam.execute(COLD.encode())
    assert refused.value.sqlstate == "08001"
    tiered.both(HOT)
    with start_in_thread(tiered.dsn) as again:
        _point_at(tiered, str(again.port))
        tiered.both(COLD)


def test_when_one_of_two_gateways_dies_the_next_statement_is_answered_by_the_other(tiered: Spanning) -> None:
    with start_in_thread(tiered.dsn) as other:
        _point_at(tiered, f"{tiered.gateway.port},{other.port}", "127.0.0.1,127.0.0.1")
        tiered.both(COLD)
        tiered.gateway.stop()
        tiered.both(COLD)
        tiered.assert_same_rows(tiered.seam)


class Cable:
    """Passes bytes on to the gateway; when it is cut, packets to it are dropped by the kernel, unanswered, as on a dead
    network."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = [self._listening]
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
        program = struct.pack("HL", 1, ctypes.addressof(drop_all))
        for end in self._ends:
            end.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)

    def mend(self) -> None:
        for end in self._ends:
            end.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)

    def close(self) -> None:
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target_port))
            self._ends.append(client)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_pour, args=(source, target), daemon=True).start()


def _pour(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


@contextmanager
def _cable(port: int) -> Iterator[Cable]:
    cable = Cable(port)
    yield cable
    cable.close()


@pytest.mark.conforms("O-151")
def test_a_cut_between_postgres_and_the_gateway_is_an_error_in_time_and_heals_by_itself(tiered: Spanning) -> None:
    options = tiered.query("select srvoptions from pg_foreign_server where srvname = 'thermocline_gateway'")[0][0]
    assert {"connect_timeout=10", "tcp_user_timeout=10000"} <= set(options)
    tiered.seam.execute(
        "alter server thermocline_gateway options (set connect_timeout '2', set tcp_user_timeout '2000')"
    )
    with _cable(tiered.gateway.port) as cable:
        _point_at(tiered, str(cable.port))
        pooled = tiered.session(autocommit=True)
        assert pooled.execute(COLD.encode()).fetchone() == (123,)
        cable.cut()
        with pytest.raises(psycopg.OperationalError, match=r"could not connect|timed out|timeout|connection") as late:
            pooled.execute(COLD.encode())
        assert late.value.sqlstate in ("08001", "08006", "08000")
        fresh = tiered.session(autocommit=True)
        with pytest.raises(psycopg.OperationalError, match=r"timeout expired|timed out"):
            fresh.execute(COLD.encode())
        tiered.both(HOT)
        assert pooled.execute(HOT.encode()).fetchone() == tiered.twin.execute(HOT.encode()).fetchone()
        cable.mend()
        for conn in (pooled, fresh, tiered.seam):
            assert conn.execute(COLD.encode()).fetchone() == (123,)
