"""A client session relayed to Postgres, message by message, on a connection of its own.

Messages of the extended protocol are held until their Sync, so that it is decided who runs a statement before Postgres
starts it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from thermocline.errors import WholeQueryRefused
from thermocline.gateway import metrics
from thermocline.gateway.sessions.describe_statement import ClientStatement, LeftToPostgres, RejectedByPostgres
from thermocline.gateway.sessions.error_responses import render_error
from thermocline.gateway.sessions.query_interceptor import QueryInterceptor, Send
from thermocline.gateway.sessions.relay_link import LinkClosed, RelayLink
from thermocline.gateway.wire import frontend_messages
from thermocline.gateway.wire.extended_batch import ExtendedBatch, decode_prepared, read_batch
from thermocline.gateway.wire.frames import ClientFrameReader, Frame, FramePart
from thermocline.gateway.wire.frontend_messages import SYNC
from thermocline.gateway.wire.messages import ProtocolViolation, notice, ready_for_query
from thermocline.runtime.memory.bounded_cache import BoundedCache

ReadClient = Callable[[], Awaitable[bytes]]

_EXTENDED = frozenset({b"P", b"B", b"D", b"E", b"C"})
_TERMINATE = b"X"
_ANSWERS = frozenset({b"D", b"C", b"I", b"E", b"s", b"H", b"c", b"G", b"T", b"n"})
_MAX_HELD_BYTES = 1_000_000
_PREPARED_BYTES = 4_000_000
_PREPARED_ENTRY_BYTES = 200
_READ_AHEAD = 16


class RelaySession:
    """One relayed session, after its login."""

    def __init__(
        self,
        link: RelayLink,
        frames: ClientFrameReader,
        read: ReadClient,
        send: Send,
        interceptor: QueryInterceptor | None,
    ) -> None:
        self._link = link
        self._frames = frames
        self._read = read
        self._send = send
        self._interceptor = interceptor
        self._received: asyncio.Queue[bytes] = asyncio.Queue(maxsize=_READ_AHEAD)
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._is_passthrough = False
        # A statement whose text is forgotten runs in Postgres, which has it.
        self._prepared: BoundedCache[str, str] = BoundedCache(max_bytes=_PREPARED_BYTES)
        self._is_idle = False
        self._is_closing = False
        self._processing: asyncio.Task[None] | None = None

    async def converse(self) -> None:
        """Serve until the client or Postgres disconnects."""
        reading = asyncio.create_task(self._read_ahead())
        self._processing = asyncio.create_task(self._process_messages())
        ends = {asyncio.create_task(self._link.listen()), self._processing}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():
                    task.result()
        finally:
            for task in (reading, *ends):
                task.cancel()
            await asyncio.gather(reading, *ends, return_exceptions=True)
            self._link.close()

    def close_when_idle(self) -> None:
        """Close the session as soon as nothing runs and no transaction is open."""
        self._is_closing = True
        if self._is_idle and self._processing is not None:
            self._processing.cancel()

    async def cancel(self) -> None:
        """Cancel what runs now, in DuckDB or in Postgres."""
        if self._interceptor is not None and self._interceptor.is_computing:
            self._interceptor.cancel()
        if not self._link.is_idle:
            await self._link.cancel()

    async def _read_ahead(self) -> None:
        """Read from the socket while a statement runs, so that a disconnect is noticed at once."""
        with contextlib.suppress(ConnectionError):
            while data := await self._read():
                await self._received.put(data)
        if self._interceptor is not None:
            self._interceptor.cancel()
        await self._received.put(b"")

    async def _process_messages(self) -> None:
        if self._interceptor is not None:
            try:
                await self._interceptor.open()
            except LinkClosed:
                return
        while True:
            frame = self._frames.next_frame()
            if frame is None:
                self._is_idle = self._link.is_idle and self._link.status == "I"
                if self._is_idle and self._is_closing:
                    return
                data = await self._received.get()
                self._is_idle = False
                if not data:
                    return
                self._frames.feed(data)
                continue
            if frame.tag == _TERMINATE:
                return
            try:
                if isinstance(frame, FramePart):
                    await self._forward_part(frame)
                else:
                    await self._process(frame)
            except LinkClosed:
                return

    async def _process(self, frame: Frame) -> None:
        if frame.tag in _EXTENDED and not self._is_passthrough:
            self._held.append(frame)
            self._held_bytes += len(frame.data)
            if self._held_bytes > _MAX_HELD_BYTES:
                await self._forward_held()
                self._is_passthrough = True
            return
        match frame.tag:
            case b"Q":
                await self._forward_held()
                await self._query(frame)
            case b"S":
                if self._is_passthrough or not await self._batch():
                    await self._forward_held(frame)
                self._is_passthrough = False
            case b"H":
                await self._forward_held(frame)
                self._is_passthrough = True
            case b"d" | b"c" | b"f" | b"F" | b"P" | b"B" | b"D" | b"E" | b"C":
                await self._forward_held(frame)
            case _:
                raise ProtocolViolation(f"message type {frame.tag!r} is unknown")

    async def _forward_part(self, part: FramePart) -> None:
        """Forward what is held and a part of a large message; everything up to the next Sync is forwarded too."""
        await self._forward_held()
        self._is_passthrough = self._is_passthrough or part.tag in _EXTENDED
        await self._link.forward_part(part)

    async def _forward_held(self, *more: Frame) -> None:
        """Forward the held messages."""
        frames, self._held, self._held_bytes = [*self._held, *more], [], 0
        if frames:
            self._record_prepared(frames)
            await self._link.forward(*frames)

    def _record_prepared(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if (made := decode_prepared(frame)) is not None:
                name, text = made
                self._prepared.put(name, text, 4 * (len(name) + len(text)) + _PREPARED_ENTRY_BYTES)

    async def _query(self, frame: Frame) -> None:
        self._prepared.forget("")
        interceptor, sql = self._interceptor, _text_of(frame)
        candidate = await interceptor.candidate(sql) if interceptor is not None and sql is not None else None
        if interceptor is None or sql is None or candidate is None:
            await self._link.forward(frame)
            return
        text = candidate.sql if candidate.is_explained else sql
        statement = ClientStatement(candidate=candidate, text=text, prepared=frontend_messages.parse("", text), name="")
        try:
            await self._send_ready(await interceptor.execute(statement))
        except RejectedByPostgres as refused:
            if self._link.status == "I" and not refused.is_cancelled:
                await self._link.forward(frame)  # nothing has happened yet: Postgres says it itself
            else:
                await self._refuse(refused, statement)
        except LeftToPostgres as declined:
            if not await self._is_refused(declined, statement):
                await self._link.forward(frame)
        except (LinkClosed, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as problem:
            await self._send_ready(render_error(problem))

    async def _batch(self) -> bool:
        """Run the held messages; False when they have to be forwarded."""
        interceptor = self._interceptor
        batch = read_batch(self._held, self._prepared.read) if interceptor is not None else None
        candidate = await interceptor.candidate(batch.sql) if interceptor is not None and batch is not None else None
        if interceptor is None or batch is None or candidate is None:
            return False
        self._record_prepared(self._held)
        self._held, self._held_bytes = [], 0
        statement = ClientStatement(
            candidate=candidate,
            text=batch.sql,
            prepared=batch.prepared,
            name=batch.bind.statement,
            bind=batch.bind,
            response_count=batch.response_count,
            is_prepared_earlier=batch.is_prepared_earlier,
        )
        try:
            await self._send_ready(await interceptor.execute(statement))
        except RejectedByPostgres as refused:
            await self._refuse(refused, statement)
        except LeftToPostgres as declined:
            if not await self._is_refused(declined, statement):
                await self._run_in_postgres(batch, declined)
        except (LinkClosed, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as problem:
            await self._send_ready(render_error(problem))
        return True

    async def _run_in_postgres(self, batch: ExtendedBatch, declined: LeftToPostgres) -> None:
        """Run a statement that is already parsed and bound in Postgres; earlier responses are sent once."""
        await self._send(b"".join(frame.data for frame in declined.client_responses))
        again = batch.close_portal + batch.bind_frame.data + batch.execute_frame.data + SYNC
        await self._link.exchange(again, _ANSWERS)
        await self._send_ready(b"")

    async def _is_refused(self, declined: LeftToPostgres, statement: ClientStatement) -> bool:
        """Report why Postgres runs the statement; True when `thermocline.engine` forbids that."""
        if declined.silent:
            return False
        metrics.WHOLE_QUERIES.labels("postgres").inc()
        if declined.engine == "duckdb":
            refusal = WholeQueryRefused(f"DuckDB does not answer this statement: {declined.reason}.")
            await self._send(b"".join(frame.data for frame in declined.client_responses))
            await self._send_ready(render_error(refusal))
            return True
        if statement.candidate.is_explained:
            await self._send(notice(f"engine: postgres, because {declined.reason}"))
        return False

    async def _refuse(self, refused: RejectedByPostgres, statement: ClientStatement) -> None:
        """Send Postgres' error, and its responses to the client's messages before it."""
        at = next((number for number, frame in enumerate(refused.frames) if frame.tag == b"E"), None)
        said = [] if at is None else [*refused.frames[: min(at, statement.response_count)], refused.frames[at]]
        await self._send_ready(b"".join(frame.data for frame in said))

    async def _send_ready(self, data: bytes) -> None:
        await self._send(data + ready_for_query(self._link.status))


def _text_of(frame: Frame) -> str | None:
    """The text of a Query; `None` when it is malformed or in another encoding, which Postgres has to judge."""
    text, end, rest = frame.body.partition(b"\0")
    try:
        return text.decode("utf-8") if end and not rest else None
    except UnicodeDecodeError:
        return None
