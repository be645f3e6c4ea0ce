"""Messages that the gateway sends to Postgres as a client."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from thermocline.gateway.wire.messages import encode, text


def parse(name: str, sql: str, oids: Sequence[int] = ()) -> bytes:
    return encode(b"P", text(name) + text(sql) + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def describe_statement(name: str) -> bytes:
    return encode(b"D", b"S" + text(name))


def describe_portal(name: str) -> bytes:
    return encode(b"D", b"P" + text(name))


def close_statement(name: str) -> bytes:
    return encode(b"C", b"S" + text(name))


def close_portal(name: str) -> bytes:
    return encode(b"C", b"P" + text(name))


def bind(name: str, values: Sequence[bytes | None] = (), formats: Sequence[int] = ()) -> bytes:
    """A Bind of text values to a statement, on a portal of the same name: the unnamed one may hold rows for the client
    to fetch."""
    body = [text(name), text(name), struct.pack(">HH", 0, len(values))]
    for value in values:
        body.append(struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value)
    body.append(struct.pack(f">H{len(formats)}h", len(formats), *formats))
    return encode(b"B", b"".join(body))


def execute(name: str) -> bytes:
    return encode(b"E", text(name) + struct.pack(">i", 0))


TERMINATE = b"X\0\0\0\4"


SYNC = b"S\0\0\0\4"
