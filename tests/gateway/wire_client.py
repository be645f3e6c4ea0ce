"""A client that sends single messages of the protocol, in orders that no driver sends them."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from tests.gateway.recorded_sessions import next_message

Message = tuple[bytes, bytes]

SYNC: Message = (b"S", b"")


def query(sql: str) -> Message:
    return b"Q", sql.encode() + b"\0"


def parse(name: str, sql: str) -> Message:
    return b"P", name.encode() + b"\0" + sql.encode() + b"\0\0\0"


def bind(portal: str, statement: str, result_format: int = 0) -> Message:
    return b"B", portal.encode() + b"\0" + statement.encode() + b"\0" + struct.pack(">4h", 0, 0, 1, result_format)


def execute(portal: str, max_rows: int = 0) -> Message:
    return b"E", portal.encode() + b"\0" + struct.pack(">i", max_rows)


class WireClient:
    """A connection that psycopg logged in; messages are sent and read here."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self._line = socket.socket(fileno=os.dup(conn.pgconn.socket))
        self._line.settimeout(60)

    def send(self, *messages: Message) -> None:
        self._line.sendall(b"".join(tag + struct.pack(">i", len(body) + 4) + body for tag, body in messages))

    def ask(self, *messages: Message) -> Answer:
        """Send messages that end in a Query or a Sync, and read up to ReadyForQuery."""
        self.send(*messages)
        return self.read_answer()

    def ask_and_cancel(self, *messages: Message) -> Answer:
        """Cancel while rows are sent: the client reads the first one, and waits until the server can send no more."""
        self.send(*messages)
        answer = Answer()
        while not answer.rows:
            answer.add(next_message(self._line))
        waiting_bytes, before = self._waiting_bytes(), -1
        while waiting_bytes != before:
            time.sleep(0.5)
            waiting_bytes, before = self._waiting_bytes(), waiting_bytes
        self._conn.cancel_safe(timeout=20)
        return self.read_answer(answer)

    def read_answer(self, answer: Answer | None = None) -> Answer:
        answer = answer or Answer()
        while not answer.is_complete:
            answer.add(next_message(self._line))
        return answer

    def _waiting_bytes(self) -> int:
        return int(struct.unpack("i", fcntl.ioctl(self._line, termios.FIONREAD, bytes(4)))[0])

    def close(self) -> None:
        self._line.close()


class Answer:
    """Messages up to ReadyForQuery: rows are counted, and so is nothing else."""

    def __init__(self) -> None:
        self.rows = 0
        self.tags: list[str] = []
        self.sqlstate: str | None = None
        self.is_complete = False
        self.is_suspended = False

    def add(self, message: bytes) -> None:
        match message[:1]:
            case b"D":
                self.rows += 1
            case b"C":
                self.tags.append(message[5:-1].decode())
            case b"E":
                fields = {field[:1]: field[1:].decode() for field in message[5:].split(b"\0") if field}
                self.sqlstate = fields[b"C"]
            case b"s":
                self.is_suspended = True
            case b"Z":
                self.is_complete = True


@contextmanager
def open_client(dsn: str) -> Iterator[WireClient]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        client = WireClient(conn)
        try:
            yield client
        finally:
            client.close()
