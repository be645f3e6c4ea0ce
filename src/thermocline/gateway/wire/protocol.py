"""The server's side of one connection as a state machine: bytes are fed in, messages are taken out one at a time.

No socket and no clock. What a client may send in which state stands in `TRANSITIONS`; everything else is a
`ProtocolViolation`. The one thing the server tells the machine is that an extended-protocol message failed: then all is
dropped until Sync.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum, auto

from thermocline.gateway.wire.frames import MAX_LOGIN_BYTES
from thermocline.gateway.wire.messages import (
    Bind,
    CancelRequest,
    Close,
    Describe,
    Execute,
    FieldReader,
    Flush,
    FrontendMessage,
    GssEncRequest,
    Parse,
    ProtocolViolation,
    Query,
    SaslInitial,
    SaslResponse,
    SslRequest,
    Startup,
    Sync,
    Terminate,
    Unsupported,
)

MAX_STARTUP_BYTES = 10_000
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_SSL_CODE, _GSS_CODE, _CANCEL_CODE = 80877103, 80877104, 80877102


class State(Enum):
    """Where a connection stands."""

    STARTUP = auto()
    SASL_INITIAL = auto()
    SASL_RESPONSE = auto()
    READY = auto()
    SKIPPING = auto()
    CLOSED = auto()


_STAY: Mapping[type, State] = dict.fromkeys(
    (Query, Parse, Bind, Describe, Execute, Close, Flush, Sync, Unsupported), State.READY
)

TRANSITIONS: Mapping[State, Mapping[type, State]] = {
    State.STARTUP: {
        SslRequest: State.STARTUP,
        GssEncRequest: State.STARTUP,
        CancelRequest: State.CLOSED,
        Startup: State.SASL_INITIAL,
    },
    State.SASL_INITIAL: {SaslInitial: State.SASL_RESPONSE},
    State.SASL_RESPONSE: {SaslResponse: State.READY},
    State.READY: {**_STAY, Terminate: State.CLOSED},
    State.SKIPPING: {
        **dict.fromkeys(_STAY, State.SKIPPING),
        Sync: State.READY,
        Terminate: State.CLOSED,
    },
    State.CLOSED: {},
}

_SAID_WHILE_SKIPPING = (Sync, Terminate)


class ServerProtocol:
    """Decodes one client's bytes."""

    def __init__(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.state = State.STARTUP
        self._buffer = bytearray()
        self._max_message_bytes = max_message_bytes
        self._encryption_requests = 0

    def feed(self, data: bytes) -> None:
        """Adds what arrived."""
        self._buffer += data

    @property
    def has_unread_bytes(self) -> bool:
        """Whether bytes wait behind the last message: after a TLS request there must be none."""
        return bool(self._buffer)

    def take_unread(self) -> bytes:
        """The bytes behind the last message, for somebody else to decode."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def skip_until_sync(self) -> None:
        """Drops every message up to the next Sync, after an error in the extended protocol."""
        if self.state is State.READY:
            self.state = State.SKIPPING

    def next_message(self) -> FrontendMessage | None:
        """The next whole message, or `None` when more bytes are needed."""
        while True:
            message = self._next_startup() if self.state is State.STARTUP else self._next_typed()
            if message is None:
                return None
            skipped = self.state is State.SKIPPING and not isinstance(message, _SAID_WHILE_SKIPPING)
            allowed = TRANSITIONS[self.state]
            if type(message) not in allowed:
                raise ProtocolViolation(f"{type(message).__name__} is not expected in state {self.state.name}")
            self.state = allowed[type(message)]
            if not skipped:
                return message

    def _next_startup(self) -> FrontendMessage | None:
        if len(self._buffer) < 4:
            return None
        (length,) = struct.unpack(">i", self._buffer[:4])
        if not 8 <= length <= MAX_STARTUP_BYTES:
            raise ProtocolViolation("startup message of an impossible length")
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[4:length])
        del self._buffer[:length]
        return self._decode_startup(FieldReader(body))

    def _decode_startup(self, fields: FieldReader) -> FrontendMessage:
        code = fields.int32()
        if code in (_SSL_CODE, _GSS_CODE):
            fields.end()
            self._encryption_requests += 1
            if self._encryption_requests > 2:
                raise ProtocolViolation("encryption asked for again and again")
            return SslRequest() if code == _SSL_CODE else GssEncRequest()
        if code == _CANCEL_CODE:
            return CancelRequest(pid=fields.uint32(), secret=fields.uint32())
        if code >> 16 != 3:
            raise ProtocolViolation(f"protocol version {code >> 16}.{code & 0xFFFF} is not spoken here")
        parameters: list[tuple[str, str]] = []
        while name := fields.text():
            parameters.append((name, fields.text()))
        fields.end()
        return Startup(minor=code & 0xFFFF, parameters=tuple(parameters))

    def _next_typed(self) -> FrontendMessage | None:
        if self.state is State.CLOSED or len(self._buffer) < 5:
            return None
        (length,) = struct.unpack(">i", self._buffer[1:5])
        limit = MAX_LOGIN_BYTES if self.state in (State.SASL_INITIAL, State.SASL_RESPONSE) else self._max_message_bytes
        if not 4 <= length <= limit:
            raise ProtocolViolation("message of an impossible length")
        if len(self._buffer) < length + 1:
            return None
        tag, body = bytes(self._buffer[:1]), bytes(self._buffer[5 : length + 1])
        del self._buffer[: length + 1]
        fields = FieldReader(body)
        if tag == b"p":
            return (
                _decode_sasl_initial(fields) if self.state is State.SASL_INITIAL else SaslResponse(data=fields.rest())
            )
        decode = _DECODERS.get(tag)
        if decode is None:
            raise ProtocolViolation(f"message type {tag!r} is unknown")
        message = decode(fields)
        fields.end()
        return message


def _decode_sasl_initial(fields: FieldReader) -> SaslInitial:
    mechanism, length = fields.text(), fields.int32()
    data = fields.take(length) if length >= 0 else b""
    fields.end()
    return SaslInitial(mechanism=mechanism, data=data)


def decode_parse(fields: FieldReader) -> Parse:
    """The fields of a Parse."""
    name, sql = fields.text(), fields.text()
    return Parse(name=name, sql=sql, parameter_oids=tuple(fields.uint32() for _ in range(fields.count())))


def decode_bind(fields: FieldReader) -> Bind:
    """The fields of a Bind."""
    portal, statement = fields.text(), fields.text()
    formats = tuple(fields.int16() for _ in range(fields.count()))
    values: list[bytes | None] = []
    for _ in range(fields.count()):
        length = fields.int32()
        values.append(None if length == -1 else fields.take(length))
    results = tuple(fields.int16() for _ in range(fields.count()))
    return Bind(
        portal=portal, statement=statement, parameter_formats=formats, parameters=tuple(values), result_formats=results
    )


def _decode_unsupported(tag: str) -> Callable[[FieldReader], FrontendMessage]:
    def decode(fields: FieldReader) -> FrontendMessage:
        fields.rest()
        return Unsupported(tag=tag)

    return decode


_DECODERS: Mapping[bytes, Callable[[FieldReader], FrontendMessage]] = {
    b"Q": lambda fields: Query(sql=fields.text()),
    b"P": decode_parse,
    b"B": decode_bind,
    b"D": lambda fields: Describe(kind=fields.kind(), name=fields.text()),
    b"E": lambda fields: Execute(portal=fields.text(), max_rows=fields.int32()),
    b"C": lambda fields: Close(kind=fields.kind(), name=fields.text()),
    b"H": lambda fields: Flush(),
    b"S": lambda fields: Sync(),
    b"X": lambda fields: Terminate(),
    b"F": _decode_unsupported("F"),
    b"d": _decode_unsupported("d"),
    b"c": _decode_unsupported("c"),
    b"f": _decode_unsupported("f"),
}
