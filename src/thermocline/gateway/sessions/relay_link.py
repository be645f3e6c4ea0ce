"""The link between a client and its own Postgres connection.

Responses are forwarded to the client as they come, except during an exchange of the gateway's own: its responses are
collected, while notices, notifications and parameter changes are still forwarded. An exchange starts only when Postgres
has answered everything before it, so no response is attributed to the wrong request.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from thermocline.gateway.sessions.upstream import UpstreamConnection
from thermocline.gateway.wire.frames import DataChunk, Frame, FramePart, ServerFrameReader

_ALWAYS_PASSED = (b"A", b"N", b"S")
_READING_TAGS = frozenset(
    {b"SELECT", b"SHOW", b"SET", b"RESET", b"BEGIN", b"START", b"SAVEPOINT", b"RELEASE", b"ROLLBACK", b"FETCH"}
)
"""Tags of commands that change no catalog; whether a SELECT wrote rows, its locks say."""

Send = Callable[[bytes | memoryview], Awaitable[None]]
Status = Literal["I", "T", "E"]


class LinkClosed(Exception):
    """Postgres closed the connection."""


@dataclass(slots=True)
class _Held:
    """Responses to the gateway's own messages; types in `passed` are forwarded to the client all the same."""

    passed: frozenset[bytes]
    done: asyncio.Future[None]
    frames: list[Frame] = field(default_factory=list)


class RelayLink:
    """One client's connection to Postgres."""

    def __init__(self, upstream: UpstreamConnection, pieces: ServerFrameReader, send: Send) -> None:
        self._upstream = upstream
        self._pieces = pieces
        self._send = send
        self._held: _Held | None = None
        self._queries = 0
        self._syncs = 0
        self._copying = False
        self.status: Status = "I"
        self.has_savepoint = False
        self.changes_count = 0
        self._parameters: dict[str, str] = {}

    @property
    def is_utf8(self) -> bool:
        """Whether client and database encoding are UTF-8, as Postgres reported."""
        return self._parameters.get("client_encoding") == self._parameters.get("server_encoding") == "UTF8"

    @property
    def is_idle(self) -> bool:
        """Whether Postgres has answered everything that was sent."""
        return self._queries + self._syncs == 0

    async def listen(self) -> None:
        """Forward responses until Postgres closes the connection."""
        try:
            while data := await self._upstream.read():
                out = bytearray()
                collects = self._held is not None and b"D" not in self._held.passed
                for piece in self._pieces.feed(data, whole=collects):
                    if self._passes(piece):
                        out += piece.data
                if out:
                    await self._send(bytes(out))
                self._settle()
            if self._held is not None and self._held.frames and self._held.frames[-1].tag == b"E":
                # The reason why Postgres closed the connection came in response to the gateway's own message.
                await self._send(self._held.frames[-1].data)
        finally:
            if self._held is not None and not self._held.done.done():
                self._held.done.set_exception(LinkClosed())

    async def forward(self, *frames: Frame) -> None:
        """Forward the client's messages unchanged."""
        for frame in frames:
            self._count(frame.tag)
        await self._upstream.send(b"".join(frame.data for frame in frames))

    async def forward_part(self, part: FramePart) -> None:
        """Forward a part of a large message."""
        if part.tag is not None:
            self._count(part.tag)
        await self._upstream.send(part.data)

    def record_parameter(self, frame: Frame) -> None:
        """Remembers a ParameterStatus."""
        name, _, rest = frame.body.partition(b"\0")
        self._parameters[name.decode("utf-8", "replace")] = rest.rstrip(b"\0").decode("utf-8", "replace")

    async def exchange(self, data: bytes, passed: frozenset[bytes] = frozenset()) -> list[Frame]:
        """Send messages of the gateway's own, ending in a Sync, and return the responses."""
        self._held = held = _Held(passed=passed, done=asyncio.get_running_loop().create_future())
        self._syncs += 1
        try:
            await self._upstream.send(data)
            await held.done
        finally:
            self._held = None
        return held.frames

    async def cancel(self) -> None:
        await self._upstream.cancel()

    def close(self) -> None:
        self._upstream.close()

    def _count(self, tag: bytes) -> None:
        match tag:
            case b"Q" | b"F":
                self._queries += 1
            case b"S" if not self._copying:
                self._syncs += 1
            case b"c" | b"f":
                self._copying = False

    def _passes(self, piece: Frame | DataChunk) -> bool:
        held = self._held
        if isinstance(piece, DataChunk):
            if held is None or b"D" in held.passed:
                return True
            held.frames += _row_frames(piece)
            return False
        self._note(piece)
        if held is None or piece.tag in _ALWAYS_PASSED or piece.tag in held.passed:
            return True
        held.frames.append(piece)
        return False

    def _note(self, frame: Frame) -> None:
        match frame.tag:
            case b"Z":
                self.status = cast(Status, frame.body.decode())
                if self._queries:
                    self._queries -= 1
                elif self._syncs:
                    self._syncs -= 1
                self._copying = False
                if self.status == "I":
                    self.has_savepoint = False
            case b"S":
                self.record_parameter(frame)
            case b"C" if self._held is None or b"C" in self._held.passed:
                word = frame.body.rstrip(b"\0").split(b" ")[0]
                self.has_savepoint = self.has_savepoint or word == b"SAVEPOINT"
                self.changes_count += word not in _READING_TAGS
            case b"G" | b"W":
                # Postgres drops a Sync that comes while it takes rows.
                self._copying, self._syncs = True, 0

    def _settle(self) -> None:
        if (
            self._held is not None
            and self._held.frames
            and self._held.frames[-1].tag == b"Z"
            and not self._held.done.done()
        ):
            self._held.done.set_result(None)


def _row_frames(rows: DataChunk) -> list[Frame]:
    """Split rows into frames; rows of the gateway's own queries are never cut."""
    frames, at = [], 0
    while at < len(rows.data):
        end = at + 1 + struct.unpack_from(">i", rows.data, at + 1)[0]
        frames.append(Frame(b"D", rows.data[at:end]))
        at = end
    return frames
