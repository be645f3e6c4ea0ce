"""Frames between the gateway and an executor: a kind, a head and a body, over a pair of connected sockets.

Both ends block. Whoever reads an end of file, or a part of a frame, knows that the other process is gone.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_PREFIX = struct.Struct(">cxxxIQ")
_BUFFER_BYTES = 1 << 20

Piece = bytes | memoryview


class Control:
    """Messages on the control channel of an executor, each with the number of a stream."""

    OPEN = b"o"
    INTERRUPT = b"i"
    LAYOUT = struct.Struct(">cI")


class StreamRequest:
    """Frames to a stream. The first is the job."""

    JOB = b"J"
    START = b"S"
    NEXT = b"N"
    ARRAYS = b"A"
    COUNT = b"C"
    CLOSE = b"X"


class StreamReply:
    """Frames from a stream. `ROWS` and `VALUE` leave the statement open; any other ends it, and `ENDED` follows."""

    ROWS = b"R"
    LAST_ROWS = b"L"
    NO_ROWS = b"Z"
    VALUE = b"V"
    PROBLEM = b"E"
    ENDED = b"K"


class ChannelClosed(Exception):
    """The other end is gone."""


@dataclass(frozen=True, slots=True)
class Message:
    """A frame as it was received."""

    kind: bytes
    head: memoryview
    body: memoryview


def make_channel() -> tuple[socket.socket, socket.socket]:
    """A pair of connected sockets."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    return ours, theirs


def send_message(channel: socket.socket, kind: bytes, head: Piece = b"", body: Piece = b"") -> None:
    """Send one frame."""
    pieces = [memoryview(piece).cast("B") for piece in (head, body)]
    prefix = _PREFIX.pack(kind, len(pieces[0]), len(pieces[1]))
    waiting = [memoryview(prefix), *(piece for piece in pieces if len(piece))]
    try:
        while waiting:
            sent = channel.sendmsg(waiting)
            while waiting and sent >= len(waiting[0]):
                sent -= len(waiting.pop(0))
            if sent:
                waiting[0] = waiting[0][sent:]
    except (BrokenPipeError, ConnectionResetError) as closed:
        raise ChannelClosed from closed


def receive_message(channel: socket.socket) -> Message:
    """Wait for the next frame."""
    kind, head_bytes, body_bytes = _PREFIX.unpack(_receive(channel, _PREFIX.size))
    content = _receive(channel, head_bytes + body_bytes)
    return Message(kind, content[:head_bytes], content[head_bytes:])


def _receive(channel: socket.socket, count: int) -> memoryview:
    data = memoryview(bytearray(count))
    at = 0
    try:
        while at < count:
            received = channel.recv_into(data[at:])
            if not received:
                raise ChannelClosed
            at += received
    except ConnectionResetError as closed:
        raise ChannelClosed from closed
    return data
