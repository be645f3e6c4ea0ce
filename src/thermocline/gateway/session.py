"""One client's session: transactions, cursors, prepared statements; statements in, messages out.

Knows no socket: it is given messages and a way to send bytes. Work that blocks runs in the gateway's threads and can be stopped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, assert_never

from thermocline.errors import StatementRefused
from thermocline.gateway import metrics, statements
from thermocline.gateway.answers import Answers, ResultStream
from thermocline.gateway.parameters import constants_of, texts_of
from thermocline.gateway.problems import SessionError, render_problem
from thermocline.gateway.sources import Cancelled, ConstantRows
from thermocline.gateway.transaction import Cursor, Portal, Prepared, Transaction
from thermocline.gateway.wire import messages as wire
from thermocline.gateway.wire.messages import Bind, Close, Describe, Execute, Field, Flush, FrontendMessage, Parse, Query, Sync, Unsupported

T = TypeVar("T")
Send = Callable[[bytes | memoryview], Awaitable[None]]

_ALWAYS_ALLOWED = (statements.Rollback, statements.RollbackTo, statements.Commit)
_FIXED_SETTINGS = {"timezone": ("gmt", "utc", "etc/utc"), "time zone": ("gmt", "utc"), "datestyle": ("iso", "iso, mdy", "iso, ymd"),
                   "client_encoding": ("utf8", "utf-8", "unicode", "sql_ascii"), "standard_conforming_strings": ("on",)}  # fmt: skip


class Session:
    """Answers one client."""

    def __init__(
        self, answers: Answers, send: Send, run_blocking: Callable[[Callable[[], object]], Awaitable[object]], *, timeout_seconds: float
    ) -> None:
        self._answers = answers
        self._send_now = send
        self._run_blocking = run_blocking
        self._timeout_seconds = timeout_seconds
        self._transaction = Transaction()
        self._cursors: dict[str, Cursor] = {}
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._out = bytearray()
        self._active: ResultStream | None = None
        self._running = False
        self._cancelled = False

    async def answer(self, message: FrontendMessage) -> bool:
        """Answers one message; False when the rest up to Sync must be skipped."""
        if isinstance(message, Query):
            await self._answer_simple(message)
            return True
        try:
            await self._answer_extended(message)
        except Exception as problem:
            await self._fail(problem)
            return False
        return True

    def cancel(self) -> None:
        """Stops the statement that runs now, if one does."""
        if self._running:
            self._cancelled = True
            if self._active is not None:
                self._active.interrupt()

    def close(self) -> None:
        """Lets go of everything; called from a thread."""
        self._close_cursors(self._cursors.copy())
        self._close_portals()

    async def _answer_simple(self, query: Query) -> None:
        try:
            pieces = statements.split_statements(query.sql)
            if not pieces:
                self._put(wire.EMPTY_QUERY)
            for piece in pieces:
                portal = Portal(statement=statements.parse_statement(piece), parameters=(), oids=())
                await self._measured(partial(self._perform, portal, describe=True, max_rows=None))
        except Exception as problem:
            await self._fail(problem)
        await self._ready()

    async def _answer_extended(self, message: FrontendMessage) -> None:
        match message:
            case Parse():
                self._prepared[message.name] = Prepared(sql=message.sql, oids=message.parameter_oids)
                self._put(wire.PARSE_COMPLETE)
            case Bind():
                self._bind(message)
            case Describe():
                await self._describe(message)
            case Execute():
                portal = self._portal(message.portal)
                await self._measured(lambda: self._perform(portal, describe=False, max_rows=message.max_rows or None))
            case Close():
                self._forget_named(message)
                self._put(wire.CLOSE_COMPLETE)
            case Flush():
                await self._flush()
            case Sync():
                if self._transaction.status == "I":
                    await self._blocking(self._close_portals)
                await self._ready()
            case Unsupported():
                raise StatementRefused("The gateway does not speak this part of the protocol.")

    def _bind(self, message: Bind) -> None:
        prepared = self._prepared.get(message.statement)
        if prepared is None:
            raise SessionError("26000", f"prepared statement {message.statement!r} does not exist")
        if any(message.result_formats):
            raise StatementRefused("The gateway sends results as text only.")
        pieces = statements.split_statements(prepared.sql)
        if len(pieces) > 1:
            raise SessionError("42601", "cannot insert multiple commands into a prepared statement")
        statement = statements.parse_statement(pieces[0]) if pieces else None
        values = texts_of(message.parameters, message.parameter_formats, prepared.oids)
        self._portals[message.portal] = Portal(statement=statement, parameters=values, oids=prepared.oids)
        self._put(wire.BIND_COMPLETE)

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise SessionError("34000", f"portal {name!r} does not exist")
        return self._portals[name]

    async def _describe(self, message: Describe) -> None:
        if message.kind == "P":
            portal = self._portal(message.name)
        else:
            prepared = self._prepared.get(message.name)
            if prepared is None:
                raise SessionError("26000", f"prepared statement {message.name!r} does not exist")
            self._put(wire.parameter_description(prepared.oids))
            pieces = statements.split_statements(prepared.sql)
            nothing = (None,) * len(prepared.oids)
            portal = Portal(statement=statements.parse_statement(pieces[0]) if pieces else None, parameters=nothing, oids=prepared.oids)
        fields = await self._blocking(lambda: self._fields(portal))
        self._put(wire.NO_DATA if fields is None else wire.row_description(fields))

    def _fields(self, portal: Portal) -> tuple[Field, ...] | None:
        match portal.statement:
            case statements.Fetch():
                return self._cursor(portal.statement.name).stream.fields()
            case (
                statements.Select()
                | statements.Explain()
                | statements.RelationSize()
                | statements.RelationInfo()
                | statements.ShowParameter()
            ):
                portal.stream = portal.stream or self._open(portal)
                return portal.stream.fields()
        return None

    async def _measured(self, work: Callable[[], Awaitable[None]]) -> None:
        begun = time.monotonic()
        self._running, self._cancelled = True, False
        outcome = "failed"
        try:
            await work()
            outcome = "answered"
        except Cancelled:
            outcome = "cancelled"
            raise
        finally:
            self._running = False
            metrics.QUERIES.labels(outcome).inc()
            metrics.QUERY_SECONDS.observe(time.monotonic() - begun)

    async def _perform(self, portal: Portal, *, describe: bool, max_rows: int | None) -> None:
        statement = portal.statement
        if statement is None:
            self._put(wire.EMPTY_QUERY)
            return
        if self._transaction.status == "E" and not isinstance(statement, _ALWAYS_ALLOWED):
            raise SessionError("25P02", "current transaction is aborted, commands ignored until end of transaction block")
        match statement:
            case statements.DeclareCursor():
                await self._declare(statement, portal)
            case statements.Fetch():
                await self._fetch(statement, describe=describe)
            case (
                statements.Select()
                | statements.Explain()
                | statements.RelationSize()
                | statements.RelationInfo()
                | statements.ShowParameter()
            ):
                await self._stream(portal, describe=describe, max_rows=max_rows)
            case _:
                await self._blocking(lambda: self._control(statement))

    async def _declare(self, statement: statements.DeclareCursor, portal: Portal) -> None:
        if self._transaction.status == "I":
            raise SessionError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        if statement.name in self._cursors:
            raise SessionError("42P03", f'cursor "{statement.name}" already exists')
        constants = constants_of(portal.parameters, portal.oids)
        analyzed = frozenset(self._transaction.analyzed)

        def open_stream() -> ResultStream:
            return self._answers.open_select(statement.sql, constants, portal.parameters, analyzed=analyzed)

        stream = await self._blocking(open_stream)
        self._cursors[statement.name] = Cursor(open=open_stream, stream=stream)
        self._put(wire.command_complete("DECLARE CURSOR"))

    def _cursor(self, name: str) -> Cursor:
        if name not in self._cursors:
            raise SessionError("34000", f'cursor "{name}" does not exist')
        return self._cursors[name]

    async def _fetch(self, statement: statements.Fetch, *, describe: bool) -> None:
        stream = self._cursor(statement.name).stream
        sent = await self._send_rows(stream, describe=describe, max_rows=statement.count)
        self._put(wire.command_complete(f"FETCH {sent}"))

    async def _stream(self, portal: Portal, *, describe: bool, max_rows: int | None) -> None:
        if portal.stream is None:
            portal.stream = await self._blocking(lambda: self._open(portal))
        stream = portal.stream
        try:
            sent = await self._send_rows(stream, describe=describe, max_rows=max_rows)
            if max_rows is not None and sent == max_rows:
                self._put(wire.PORTAL_SUSPENDED)
                return
        except BaseException:
            await self._blocking(stream.close)
            raise
        await self._blocking(stream.close)
        self._put(wire.command_complete(self._tag(portal.statement, sent)))

    @staticmethod
    def _tag(statement: statements.Statement | None, rows: int) -> str:
        match statement:
            case statements.Explain():
                return "EXPLAIN"
            case statements.ShowParameter():
                return "SHOW"
        return f"SELECT {rows}"

    def _open(self, portal: Portal) -> ResultStream:
        match portal.statement:
            case statements.Select():
                constants = constants_of(portal.parameters, portal.oids)
                analyzed = frozenset(self._transaction.analyzed)
                return self._answers.open_select(portal.statement.sql, constants, portal.parameters, analyzed=analyzed)
            case statements.Explain():
                return self._answers.open_explain(portal.statement.sql, constants_of(portal.parameters, portal.oids))
            case statements.RelationSize():
                self._transaction.analyzed.add(portal.statement.table)
                return self._answers.open_relation_size(portal.statement.table, portal.statement.block_bytes)
            case statements.RelationInfo():
                self._transaction.analyzed.add(portal.statement.table)
                return self._answers.open_relation_info(portal.statement.table, portal.statement.columns)
            case statements.ShowParameter():
                value = self._answers.parameter(portal.statement.name)
                return ResultStream(ConstantRows([Field(name=portal.statement.name, type_oid=25)], [[value.encode()]]))
        raise StatementRefused

    async def _send_rows(self, stream: ResultStream, *, describe: bool, max_rows: int | None) -> int:
        """Sends up to `max_rows` rows, never holding more than one batch: the socket sets the pace."""
        sent = 0
        self._active = stream
        try:
            if describe:
                self._put(wire.row_description(await self._blocking(stream.fields)))
            while max_rows is None or sent < max_rows:
                left = None if max_rows is None else max_rows - sent
                piece = stream.buffered(left)
                if piece is None:
                    if not await self._blocking(stream.advance):
                        break
                    continue
                data, rows = piece
                sent += rows
                await self._flush()
                await self._send_now(data)
                metrics.ROWS_SENT.inc(rows)
                metrics.BYTES_SENT.inc(len(data))
        finally:
            self._active = None
        return sent

    def _control(self, statement: statements.Statement) -> None:
        match statement:
            case statements.SetParameter():
                self._set(statement)
            case statements.Begin():
                self._transaction.status = "T"
                self._put(wire.command_complete(statement.tag))
            case statements.Commit() | statements.Rollback():
                kept = isinstance(statement, statements.Commit) and self._transaction.status != "E"
                self._close_cursors(self._cursors.copy())
                self._close_portals()
                self._transaction = Transaction()
                self._put(wire.command_complete("COMMIT" if kept else "ROLLBACK"))
            case statements.Savepoint() | statements.Release() | statements.RollbackTo():
                self._savepoint(statement)
            case statements.Rewind():
                cursor = self._cursor(statement.name)
                cursor.stream.close()
                cursor.stream = cursor.open()
                self._put(wire.command_complete("MOVE 0"))
            case statements.CloseCursor():
                names = self._cursors.copy() if statement.name is None else {statement.name: self._cursor(statement.name)}
                self._close_cursors(names)
                self._put(wire.command_complete("CLOSE CURSOR"))
            case statements.Forget():
                if statement.everything:
                    self._prepared.clear()
                self._put(wire.command_complete(statement.tag))
            case (
                statements.DeclareCursor()
                | statements.Fetch()
                | statements.Select()
                | statements.Explain()
                | statements.RelationSize()
                | statements.RelationInfo()
                | statements.ShowParameter()
            ):
                raise StatementRefused
            case _:
                assert_never(statement)

    def _set(self, statement: statements.SetParameter) -> None:
        allowed = _FIXED_SETTINGS.get(statement.name)
        if allowed is not None and statement.value.lower() not in allowed:
            raise SessionError("0A000", f"the gateway keeps {statement.name} at {allowed[0].upper()}")
        self._put(wire.command_complete("SET"))

    def _savepoint(self, statement: statements.Savepoint | statements.Release | statements.RollbackTo) -> None:
        match statement:
            case statements.Savepoint():
                self._transaction.save(statement.name, frozenset(self._cursors))
                tag = "SAVEPOINT"
            case statements.Release():
                self._transaction.release(statement.name)
                tag = "RELEASE"
            case statements.RollbackTo():
                kept = self._transaction.roll_back_to(statement.name)
                self._close_cursors({name: cursor for name, cursor in self._cursors.items() if name not in kept})
                tag = "ROLLBACK"
        self._put(wire.command_complete(tag))

    def _close_cursors(self, cursors: dict[str, Cursor]) -> None:
        for name, cursor in cursors.items():
            self._cursors.pop(name, None)
            cursor.stream.close()

    def _close_portals(self) -> None:
        portals, self._portals = self._portals, {}
        for portal in portals.values():
            if portal.stream is not None:
                portal.stream.close()

    def _forget_named(self, message: Close) -> None:
        if message.kind == "S":
            self._prepared.pop(message.name, None)
            return
        portal = self._portals.pop(message.name, None)
        if portal is not None and portal.stream is not None:
            portal.stream.close()

    async def _blocking(self, work: Callable[[], T]) -> T:
        """Runs what may block in a thread; stopped by a cancel request or the statement timeout."""
        if self._cancelled and self._running:
            raise Cancelled
        task = asyncio.ensure_future(self._run_blocking(work))
        timeout = self._timeout_seconds or None
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            if self._active is not None:
                self._active.interrupt()
            await asyncio.wait({task})
            task.exception()
            raise SessionError("57014", "canceling statement due to statement timeout")
        return task.result()  # type: ignore[return-value]

    async def _fail(self, problem: Exception) -> None:
        if self._transaction.status == "T":
            self._transaction.status = "E"
        self._put(render_problem(problem))

    def _put(self, data: bytes) -> None:
        self._out += data

    async def _flush(self) -> None:
        if self._out:
            data, self._out = bytes(self._out), bytearray()
            await self._send_now(data)

    async def _ready(self) -> None:
        self._put(wire.ready_for_query(self._transaction.status))
        await self._flush()
