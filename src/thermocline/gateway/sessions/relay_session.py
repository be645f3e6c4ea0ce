"""A person's session: relayed to Postgres on the client's own connection, message by message, in order.

Messages of the extended protocol are held until their Sync, so that a statement can be judged before Postgres begins to
run it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from thermocline.errors import WholeQueryRefused
from thermocline.gateway import metrics
from thermocline.gateway.sessions.error_responses import render_problem
from thermocline.gateway.sessions.query_interceptor import Conversation, Declined, Refusal, Send, Wish
from thermocline.gateway.sessions.relay_link import Line, LineClosed
from thermocline.gateway.wire import frontend_messages
from thermocline.gateway.wire.extended_batch import Batch, read_batch, read_prepared
from thermocline.gateway.wire.frames import ClientFrames, Frame, Part
from thermocline.gateway.wire.frontend_messages import SYNC
from thermocline.gateway.wire.messages import ProtocolViolation, notice, ready_for_query

ReadClient = Callable[[], Awaitable[bytes]]

_EXTENDED = frozenset({b"P", b"B", b"D", b"E", b"C"})
_TERMINATE = b"X"
_ANSWERS = frozenset({b"D", b"C", b"I", b"E", b"s", b"H", b"c", b"G", b"T", b"n"})
_MAX_HELD_BYTES = 1_000_000
_MAX_PREPARED = 10_000
_READ_AHEAD = 16


class Relay:
    """One client after its login."""

    def __init__(
        self, line: Line, frames: ClientFrames, read: ReadClient, send: Send, talk: Conversation | None
    ) -> None:
        self._line = line
        self._frames = frames
        self._read = read
        self._send = send
        self._talk_about = talk
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_READ_AHEAD)
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._passing = False
        self._prepared: dict[str, str] = {}
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
        if self._talk_about is not None and self._talk_about.is_computing:
            self._talk_about.cancel()
        if not self._line.is_quiet:
            await self._line.cancel()

    async def _read_on(self) -> None:
        """Takes bytes off the socket while a statement runs, so that a client that left is noticed at once."""
        with contextlib.suppress(ConnectionError):
            while data := await self._read():
                await self._arrived.put(data)
        if self._talk_about is not None:
            self._talk_about.cancel()
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
            try:
                if isinstance(frame, Part):
                    await self._pass_on(frame)
                else:
                    await self._take(frame)
            except LineClosed:
                return

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
                await self._query(frame)
            case b"S":
                if self._passing or not await self._batch():
                    await self._release(frame)
                self._passing = False
            case b"H":
                await self._release(frame)
                self._passing = True
            case b"d" | b"c" | b"f" | b"F" | b"P" | b"B" | b"D" | b"E" | b"C":
                await self._release(frame)
            case _:
                raise ProtocolViolation(f"message type {frame.tag!r} is unknown")

    async def _pass_on(self, part: Part) -> None:
        """A part of a message that is too large to be judged, behind what is held; so is all that follows up to its
        Sync."""
        await self._release()
        self._passing = self._passing or part.tag in _EXTENDED
        await self._line.forward_part(part)

    async def _release(self, *more: Frame) -> None:
        """Sends on what is held."""
        frames, self._held, self._held_bytes = [*self._held, *more], [], 0
        if frames:
            self._remember(frames)
            await self._line.forward(*frames)

    def _remember(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if (made := read_prepared(frame)) is not None and len(self._prepared) < _MAX_PREPARED:
                self._prepared[made[0]] = made[1]

    async def _query(self, frame: Frame) -> None:
        self._prepared.pop("", None)
        talk, sql = self._talk_about, _text_of(frame)
        candidate = await talk.candidate(sql) if talk is not None and sql is not None else None
        if talk is None or sql is None or candidate is None:
            await self._line.forward(frame)
            return
        text = candidate.sql if candidate.is_explained else sql
        wish = Wish(candidate=candidate, text=text, prepared=frontend_messages.parse("", text), name="")
        try:
            await self._ready(await talk.answer(wish))
        except Refusal as refused:
            if self._line.status == "I" and not refused.is_cancelled:
                await self._line.forward(frame)  # nothing has happened yet: Postgres says it itself
            else:
                await self._refuse(refused, wish)
        except Declined as declined:
            if not await self._is_refused(declined, wish):
                await self._line.forward(frame)
        except (LineClosed, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as problem:
            await self._ready(render_problem(problem))

    async def _batch(self) -> bool:
        """Answers what is held; False when it has to be relayed as it is."""
        talk = self._talk_about
        batch = read_batch(self._held, self._prepared) if talk is not None else None
        candidate = await talk.candidate(batch.sql) if talk is not None and batch is not None else None
        if talk is None or batch is None or candidate is None:
            return False
        self._remember(self._held)
        self._held, self._held_bytes = [], 0
        wish = Wish(
            candidate=candidate,
            text=batch.sql,
            prepared=batch.prepared,
            name=batch.bind.statement,
            bind=batch.bind,
            answers=batch.answers,
            is_older=batch.is_older,
        )
        try:
            await self._ready(await talk.answer(wish))
        except Refusal as refused:
            await self._refuse(refused, wish)
        except Declined as declined:
            if not await self._is_refused(declined, wish):
                await self._run_after_all(batch, declined)
        except (LineClosed, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as problem:
            await self._ready(render_problem(problem))
        return True

    async def _run_after_all(self, batch: Batch, declined: Declined) -> None:
        """The statement is prepared and bound already: Postgres runs it, and says once what it has said before."""
        await self._send(b"".join(frame.data for frame in declined.own))
        again = batch.close_portal + batch.bind_frame.data + batch.execute_frame.data + SYNC
        await self._line.ask(again, _ANSWERS)
        await self._ready(b"")

    async def _is_refused(self, declined: Declined, wish: Wish) -> bool:
        """Refuses what DuckDB was asked for by name and cannot do; tells why where EXPLAIN asked."""
        if declined.silent:
            return False
        metrics.WHOLE_QUERIES.labels("postgres").inc()
        if declined.engine == "duckdb":
            refusal = WholeQueryRefused(f"DuckDB does not answer this statement: {declined.reason}.")
            await self._send(b"".join(frame.data for frame in declined.own))
            await self._ready(render_problem(refusal))
            return True
        if wish.candidate.is_explained:
            await self._send(notice(f"engine: postgres, because {declined.reason}"))
        return False

    async def _refuse(self, refused: Refusal, wish: Wish) -> None:
        """Postgres' own error, with what it said to the client's own messages before."""
        at = next((number for number, frame in enumerate(refused.frames) if frame.tag == b"E"), None)
        said = [] if at is None else [*refused.frames[: min(at, wish.answers)], refused.frames[at]]
        await self._ready(b"".join(frame.data for frame in said))

    async def _ready(self, data: bytes) -> None:
        await self._send(data + ready_for_query(self._line.status))


def _text_of(frame: Frame) -> str | None:
    """The text of a Query; `None` when it is malformed or in another encoding, which Postgres has to judge."""
    text, end, rest = frame.body.partition(b"\0")
    try:
        return text.decode("utf-8") if end and not rest else None
    except UnicodeDecodeError:
        return None
