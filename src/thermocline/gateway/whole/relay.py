"""A person's session: relayed to Postgres on the client's own connection, message by message, in order.

Messages of the extended protocol are held until their Sync, so that a statement can be judged before Postgres begins to run it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from thermocline.gateway.whole.frames import ClientFrames, Frame
from thermocline.gateway.whole.line import Line
from thermocline.gateway.wire.messages import ProtocolViolation

ReadClient = Callable[[], Awaitable[bytes]]

_EXTENDED = frozenset({b"P", b"B", b"D", b"E", b"C"})
_FLUSH, _SYNC, _QUERY, _TERMINATE = b"H", b"S", b"Q", b"X"
_MAX_HELD_BYTES = 1_000_000
_READ_AHEAD = 16


class Relay:
    """One client after its login."""

    def __init__(self, line: Line, frames: ClientFrames, read: ReadClient) -> None:
        self._line = line
        self._frames = frames
        self._read = read
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_READ_AHEAD)
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._passing = False
        self._is_idle = False
        self._leaving = False
        self._talking: asyncio.Task[None] | None = None

    async def converse(self) -> None:
        """Until the client or Postgres leaves."""
        reading = asyncio.create_task(self._read_on())
        self._talking = asyncio.create_task(self._talk())
        ends = {asyncio.create_task(self._line.listen()), self._talking}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():
                    task.result()
        finally:
            for task in (reading, *ends):
                task.cancel()
            await asyncio.gather(reading, *ends, return_exceptions=True)
            self._line.close()

    def leave_when_idle(self) -> None:
        """Ends the session as soon as nothing runs and no transaction is open."""
        self._leaving = True
        if self._is_idle and self._talking is not None:
            self._talking.cancel()

    async def cancel(self) -> None:
        """Stops what runs now, wherever it runs."""
        await self._line.cancel()

    async def _read_on(self) -> None:
        """Takes bytes off the socket while a statement runs, so that a client that left is noticed at once."""
        with contextlib.suppress(ConnectionError):
            while data := await self._read():
                await self._arrived.put(data)
        await self._arrived.put(b"")

    async def _talk(self) -> None:
        while True:
            frame = self._frames.next_frame()
            if frame is None:
                self._is_idle = self._line.is_quiet and self._line.status == "I"
                if self._is_idle and self._leaving:
                    return
                data = await self._arrived.get()
                self._is_idle = False
                if not data:
                    return
                self._frames.feed(data)
                continue
            if frame.tag == _TERMINATE:
                return
            await self._take(frame)

    async def _take(self, frame: Frame) -> None:
        if frame.tag in _EXTENDED and not self._passing:
            self._held.append(frame)
            self._held_bytes += len(frame.data)
            if self._held_bytes > _MAX_HELD_BYTES:
                await self._release()
                self._passing = True
            return
        match frame.tag:
            case b"Q":
                await self._release()
                await self._line.forward(frame)
            case b"S":
                await self._release(frame)
                self._passing = False
            case b"H":
                await self._release(frame)
                self._passing = True
            case b"d" | b"c" | b"f" | b"F" | b"P" | b"B" | b"D" | b"E" | b"C":
                await self._release(frame)
            case _:
                raise ProtocolViolation(f"message type {frame.tag!r} is unknown")

    async def _release(self, *more: Frame) -> None:
        """Sends on what is held."""
        frames, self._held, self._held_bytes = [*self._held, *more], [], 0
        if frames:
            await self._line.forward(*frames)
