"""Messages of the protocol as values: what a client sends, decoded, and what the server sends, encoded."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


class ProtocolViolation(Exception):
    """The client sent bytes that no Postgres client sends; its connection is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SslRequest:
    """Asks for TLS before the startup message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GssEncRequest:
    """Asks for GSSAPI encryption; always declined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """Asks, on a connection of its own, to stop what another connection runs."""

    pid: int
    secret: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """The first real message: protocol version and session parameters."""

    minor: int
    parameters: tuple[tuple[str, str], ...]

    def parameter(self, name: str) -> str | None:
        return dict(self.parameters).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslInitial:
    """The client's choice of mechanism and its first SASL message."""

    mechanism: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslResponse:
    """The client's proof."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Simple query: one or more statements in one text."""

    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parse:
    """Makes a prepared statement."""

    name: str
    sql: str
    parameter_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """Makes a portal from a prepared statement and parameter values."""

    portal: str
    statement: str
    parameter_formats: tuple[int, ...]
    parameters: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Asks what a statement ('S') or portal ('P') will return."""

    kind: Literal["S", "P"]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """Runs a portal; `max_rows` 0 means all."""

    portal: str
    max_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Forgets a statement or portal."""

    kind: Literal["S", "P"]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Asks for what is buffered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Ends an extended-protocol conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Says goodbye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A message of the protocol that this server refuses (function calls, COPY data)."""

    tag: str


FrontendMessage = (
    SslRequest
    | GssEncRequest
    | CancelRequest
    | Startup
    | SaslInitial
    | SaslResponse
    | Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Flush
    | Sync
    | Terminate
    | Unsupported
)


class FieldReader:
    """Reads the fields of one message body; every misfit is a `ProtocolViolation`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._body):
            raise ProtocolViolation("message is shorter than its fields")
        piece = self._body[self._at : self._at + count]
        self._at += count
        return piece

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def uint32(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def count(self) -> int:
        return int(struct.unpack(">H", self.take(2))[0])

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("text without its end")
        try:
            value = self.take(end - self._at).decode("utf-8")
        except UnicodeDecodeError as bad:
            raise ProtocolViolation("text that is not UTF-8") from bad
        self._at += 1
        return value

    def kind(self) -> Literal["S", "P"]:
        match self.take(1):
            case b"S":
                return "S"
            case b"P":
                return "P"
        raise ProtocolViolation("neither statement nor portal")

    def end(self) -> None:
        if self._at != len(self._body):
            raise ProtocolViolation("message is longer than its fields")


def encode(tag: bytes, body: bytes = b"") -> bytes:
    """One backend message."""
    return tag + struct.pack(">i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATION_OK = encode(b"R", struct.pack(">i", 0))
PARSE_COMPLETE = encode(b"1")
BIND_COMPLETE = encode(b"2")
CLOSE_COMPLETE = encode(b"3")
COPY_DONE = encode(b"c")
NO_DATA = encode(b"n")
EMPTY_QUERY = encode(b"I")
PORTAL_SUSPENDED = encode(b"s")
DECLINED = b"N"
ACCEPTED_TLS = b"S"


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    return encode(b"R", struct.pack(">i", 10) + b"".join(text(m) for m in mechanisms) + b"\0")


def authentication_sasl_continue(data: bytes) -> bytes:
    return encode(b"R", struct.pack(">i", 11) + data)


def authentication_sasl_final(data: bytes) -> bytes:
    return encode(b"R", struct.pack(">i", 12) + data)


def negotiate_protocol_version(minor: int, unknown: Sequence[str]) -> bytes:
    return encode(b"v", struct.pack(">ii", minor, len(unknown)) + b"".join(text(name) for name in unknown))


def parameter_status(name: str, value: str) -> bytes:
    return encode(b"S", text(name) + text(value))


def backend_key_data(pid: int, secret: int) -> bytes:
    return encode(b"K", struct.pack(">II", pid, secret))


def ready_for_query(status: Literal["I", "T", "E"]) -> bytes:
    return encode(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    return encode(b"C", text(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    return encode(b"t", struct.pack(">H", len(oids)) + b"".join(struct.pack(">I", oid) for oid in oids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of a result."""

    name: str
    type_oid: int
    type_size: int = -1
    type_modifier: int = -1


def row_description(fields: Sequence[Field], formats: Sequence[int] = ()) -> bytes:
    """`formats` as Bind gives them: none, one for all, or one for each column."""
    body = [struct.pack(">H", len(fields))]
    for at, field in enumerate(fields):
        form = formats[0 if len(formats) == 1 else at] if formats else 0
        body.append(
            text(field.name) + struct.pack(">IhIhih", 0, 0, field.type_oid, field.type_size, field.type_modifier, form)
        )
    return encode(b"T", b"".join(body))


def copy_out_response(columns: int) -> bytes:
    """What follows are lines of COPY's text format."""
    return encode(b"H", struct.pack(">bH", 0, columns) + bytes(2 * columns))


def data_row(values: Sequence[bytes | None]) -> bytes:
    body = [struct.pack(">H", len(values))]
    for value in values:
        body.append(struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value)
    return encode(b"D", b"".join(body))


def error_response(*, severity: str, sqlstate: str, message: str, hint: str = "", detail: str = "") -> bytes:
    fields = [(b"S", severity), (b"V", severity), (b"C", sqlstate), (b"M", message), (b"D", detail), (b"H", hint)]
    return encode(b"E", b"".join(key + text(value) for key, value in fields if value) + b"\0")


def notice(sentence: str) -> bytes:
    """A NOTICE of the gateway's own."""
    fields = [(b"S", "NOTICE"), (b"V", "NOTICE"), (b"C", "00000"), (b"M", sentence)]
    return encode(b"N", b"".join(key + text(value) for key, value in fields) + b"\0")
