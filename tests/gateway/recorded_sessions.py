"""Recorded sessions of postgres_fdw: read them, log in as they do, take messages from the wire."""

from __future__ import annotations

import socket
import struct

import scramp
from tests.gateway.conftest import LOGIN, PASSWORD
from tests.gateway.recording import FOLDER, Turn, read_recording


def read_fdw_recording(major: str) -> list[Turn]:
    return read_recording(FOLDER / f"postgres_fdw_{major}.jsonl")


def log_in(line: socket.socket, startup: bytes) -> list[bytes]:
    """Logs in with fresh random numbers; what the server says once it has proved itself."""
    client = scramp.ScramClient(["SCRAM-SHA-256"], LOGIN, PASSWORD)
    line.sendall(startup)
    next_message(line)
    first = client.get_client_first().encode()
    send_password(line, b"SCRAM-SHA-256\0" + struct.pack(">i", len(first)) + first)
    client.set_server_first(next_message(line)[9:].decode())
    send_password(line, client.get_client_final().encode())
    client.set_server_final(next_message(line)[9:].decode())
    said: list[bytes] = []
    while not said or said[-1][:1] != b"Z":
        said.append(next_message(line))
    return said


def send_password(line: socket.socket, body: bytes) -> None:
    line.sendall(b"p" + struct.pack(">i", len(body) + 4) + body)


def next_message(line: socket.socket) -> bytes:
    head = read_exactly(line, 5)
    return head + read_exactly(line, struct.unpack(">i", head[1:])[0] - 4)


def read_exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = line.recv(count - len(data))
        assert piece, f"the gateway hung up after {data!r}"
        data += piece
    return data
