"""The session of `postgres_fdw` and other clients of the lake: transactions, cursors, prepared statements, portals.

It has no socket: it gets messages and a function that sends bytes. Blocking work runs in threads and can be
interrupted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

from thermocline.errors import StatementRefused
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.lake_query_service import LakeQueryService
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.sessions.error_responses import SessionError, render_error
from thermocline.gateway.sessions.open_portal import ROW_STATEMENTS, command_tag, open_portal
from thermocline.gateway.sessions.statement_control import StatementControl
from thermocline.gateway.sessions.transaction import Cursor, Portal, PreparedStatement, Transaction
from thermocline.gateway.sql.parameters import decode_parameters, parse_parameters
from thermocline.gateway.sql.syntax import statements
from thermocline.gateway.wire import messages as wire
from thermocline.gateway.wire.messages import (
    Bind,
    Close,
    Describe,
    Execute,
    Field,
    Flush,
    FrontendMessage,
    Parse,
    Query,
    Sync,
    Unsupported,
)
from thermocline.gateway.wire.row_encoding import ResultFormat, result_format_of

Send = Callable[[bytes | memoryview], Awaitable[None]]

_ALWAYS_ALLOWED = (statements.Rollback, statements.RollbackTo, statements.Commit)
_FIXED_SETTINGS = {
    "timezone": ("gmt", "utc", "etc/utc"),
    "time zone": ("gmt", "utc"),
    "datestyle": ("iso", "iso, mdy", "iso, ymd"),
    "client_encoding": ("utf8", "utf-8", "unicode", "sql_ascii"),
    "standard_conforming_strings": ("on",),
}


class LakeSession:
    """Runs the statements of one client."""

    def __init__(self, lake_queries: LakeQueryService, send: Send, control: StatementControl) -> None:
        self._lake_queries = lake_queries
        self._send_now = send
        self._control = control
        self._transaction = Transaction()
        self._cursors: dict[str, Cursor] = {}
        self._prepared: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}
        self._out = bytearray()
        self._memory = lake_queries.connection_memory()

    async def answer(self, message: FrontendMessage) -> bool:
        """Process one message; False when the rest up to Sync must be skipped."""
        match message:
            case Query():
                await self._answer_simple(message)
                return True
            case Sync():
                await self._sync()
                return True
        try:
            await self._answer_extended(message)
        except Exception as problem:
            await self._fail(problem)
            return False
        return True

    def cancel(self) -> None:
        """Stops the statement that runs now, if one does."""
        self._control.cancel()

    def close(self) -> None:
        """Close all cursors and portals; called from a thread."""
        self._close_cursors(self._cursors.copy())
        self._close_portals()

    async def _answer_simple(self, query: Query) -> None:
        try:
            pieces = statements.split_statements(query.sql)
            if not pieces:
                self._put(wire.EMPTY_QUERY)
            for piece in pieces:
                portal = Portal(statement=statements.parse_statement(piece), parameters=(), oids=(), text=piece)
                with self._control.statement(piece):
                    await self._perform(portal, describe=True, max_rows=None)
        except Exception as problem:
            await self._fail(problem)
        await self._send_ready()

    async def _answer_extended(self, message: FrontendMessage) -> None:
        match message:
            case Parse():
                self._prepared[message.name] = PreparedStatement(sql=message.sql, oids=message.parameter_oids)
                self._put(wire.PARSE_COMPLETE)
            case Bind():
                self._bind(message)
            case Describe():
                await self._describe(message)
            case Execute():
                portal = self._portal(message.portal)
                with self._control.statement(portal.text):
                    await self._perform(portal, describe=False, max_rows=max(0, message.max_rows) or None)
            case Close():
                await self._control.run_cleanup(partial(self._forget_named, message))
                self._put(wire.CLOSE_COMPLETE)
            case Flush():
                await self._flush()
            case Unsupported():
                raise StatementRefused("The gateway does not speak this part of the protocol.")

    def _bind(self, message: Bind) -> None:
        prepared = self._prepared.get(message.statement)
        if prepared is None:
            raise SessionError("26000", f"prepared statement {message.statement!r} does not exist")
        pieces = statements.split_statements(prepared.sql)
        if len(pieces) > 1:
            raise SessionError("42601", "cannot insert multiple commands into a prepared statement")
        statement = statements.parse_statement(pieces[0]) if pieces else None
        values = decode_parameters(message.parameters, message.parameter_formats, prepared.oids)
        self._portals[message.portal] = Portal(
            statement=statement,
            parameters=values,
            oids=prepared.oids,
            formats=message.result_formats,
            text=prepared.sql,
        )
        self._put(wire.BIND_COMPLETE)

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise SessionError("34000", f"portal {name!r} does not exist")
        return self._portals[name]

    async def _describe(self, message: Describe) -> None:
        if message.kind == "S":
            await self._describe_prepared(message.name)
            return
        portal = self._portal(message.name)
        with self._control.statement(portal.text, counted=False):
            fields = await self._fields(portal)
        self._put(wire.NO_DATA if fields is None else wire.row_description(fields, portal.formats))

    async def _describe_prepared(self, name: str) -> None:
        prepared = self._prepared.get(name)
        if prepared is None:
            raise SessionError("26000", f"prepared statement {name!r} does not exist")
        pieces = statements.split_statements(prepared.sql)
        statement = statements.parse_statement(pieces[0]) if pieces else None
        if isinstance(statement, statements.Select):
            sql, oids = statement.sql, prepared.oids
            with self._control.statement(sql, counted=False):
                described = await self._control.run_blocking(lambda: self._lake_queries.describe(sql, oids))
            self._prepared[name] = PreparedStatement(sql=prepared.sql, oids=described.parameter_oids)
            self._put(wire.parameter_description(described.parameter_oids) + wire.row_description(described.fields))
            return
        nothing = (None,) * len(prepared.oids)
        fields = await self._fields(Portal(statement=statement, parameters=nothing, oids=prepared.oids))
        self._put(
            wire.parameter_description(prepared.oids)
            + (wire.NO_DATA if fields is None else wire.row_description(fields))
        )

    async def _fields(self, portal: Portal) -> tuple[Field, ...] | None:
        if isinstance(portal.statement, statements.Fetch):
            stream = self._cursor(portal.statement.name).stream
        elif isinstance(portal.statement, ROW_STATEMENTS) and not isinstance(portal.statement, statements.CopyOut):
            stream = await self._open(portal)
        else:
            return None
        return await self._control.run_blocking(stream.fields, stream)

    async def _open(self, portal: Portal) -> ResultStream:
        if portal.stream is None:
            portal.stream = await self._control.run_blocking(
                partial(open_portal, self._lake_queries, portal, self._transaction.analyzed, self._memory)
            )
        return portal.stream

    async def _perform(self, portal: Portal, *, describe: bool, max_rows: int | None) -> None:
        statement = portal.statement
        if statement is None:
            self._put(wire.EMPTY_QUERY)
            return
        if self._transaction.status == "E" and not isinstance(statement, _ALWAYS_ALLOWED):
            raise SessionError(
                "25P02", "current transaction is aborted, commands ignored until end of transaction block"
            )
        match statement:
            case statements.DeclareCursor():
                await self._declare(statement, portal)
            case statements.Fetch():
                await self._fetch(statement, describe=describe, formats=portal.formats)
            case statements.CopyOut():
                await self._copy_out(portal)
            case _ if isinstance(statement, ROW_STATEMENTS):
                await self._stream(portal, describe=describe, max_rows=max_rows)
            case _:
                await self._control.run_cleanup(lambda: self._run_command(statement))

    async def _declare(self, statement: statements.DeclareCursor, portal: Portal) -> None:
        if self._transaction.status == "I":
            raise SessionError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        if statement.name in self._cursors:
            raise SessionError("42P03", f'cursor "{statement.name}" already exists')
        constants = parse_parameters(portal.parameters, portal.oids)
        analyzed = frozenset(self._transaction.analyzed)

        def open_stream() -> ResultStream:
            return self._lake_queries.open_select(
                statement.sql, constants, portal.parameters, analyzed=analyzed, memory=self._memory
            )

        stream = await self._control.run_blocking(open_stream)
        self._cursors[statement.name] = Cursor(open=open_stream, stream=stream)
        self._put(wire.command_complete("DECLARE CURSOR"))

    def _cursor(self, name: str) -> Cursor:
        if name not in self._cursors:
            raise SessionError("34000", f'cursor "{name}" does not exist')
        return self._cursors[name]

    async def _fetch(self, statement: statements.Fetch, *, describe: bool, formats: tuple[int, ...]) -> None:
        stream = self._cursor(statement.name).stream
        sent = await self._send_rows(
            stream, describe=describe, max_rows=statement.count, shape=result_format_of(formats)
        )
        self._put(wire.command_complete(f"FETCH {sent}"))

    async def _stream(self, portal: Portal, *, describe: bool, max_rows: int | None) -> None:
        stream = await self._open(portal)
        try:
            sent = await self._send_rows(
                stream, describe=describe, max_rows=max_rows, shape=result_format_of(portal.formats)
            )
            if max_rows is not None and sent == max_rows:
                self._put(wire.PORTAL_SUSPENDED)
                return
        except BaseException:
            await self._control.run_cleanup(stream.close)
            raise
        await self._control.run_cleanup(stream.close)
        self._put(wire.command_complete(command_tag(portal.statement, sent)))

    async def _copy_out(self, portal: Portal) -> None:
        stream = await self._open(portal)
        try:
            fields = await self._control.run_blocking(stream.fields, stream)
            self._put(wire.copy_out_response(len(fields)))
            sent = await self._send_rows(stream, describe=False, max_rows=None, shape=ResultFormat(is_copy=True))
        finally:
            await self._control.run_cleanup(stream.close)
        self._put(wire.COPY_DONE + wire.command_complete(command_tag(portal.statement, sent)))

    async def _send_rows(
        self, stream: ResultStream, *, describe: bool, max_rows: int | None, shape: ResultFormat
    ) -> int:
        """Send up to `max_rows` rows, one batch in memory at a time: the socket sets the pace."""
        sent = 0
        if describe:
            fields = await self._control.run_blocking(stream.fields, stream)
            self._put(wire.row_description(fields, shape.formats))
        while max_rows is None or sent < max_rows:
            piece = stream.buffered(None if max_rows is None else max_rows - sent)
            if piece is None:
                if not await self._control.run_blocking(partial(stream.advance, shape), stream):
                    break
                continue
            self._control.check_interrupts()
            data, rows = piece
            sent += rows
            await self._flush()
            await self._send_now(data)
            metrics.ROWS_SENT.inc(rows)
            metrics.BYTES_SENT.inc(len(data))
        return sent

    def _run_command(self, statement: statements.Statement) -> None:
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
            case statements.RewindCursor():
                cursor = self._cursor(statement.name)
                cursor.stream.close()
                cursor.stream = cursor.open()
                self._put(wire.command_complete("MOVE 0"))
            case statements.CloseCursor():
                names = (
                    self._cursors.copy() if statement.name is None else {statement.name: self._cursor(statement.name)}
                )
                self._close_cursors(names)
                self._put(wire.command_complete("CLOSE CURSOR"))
            case statements.Deallocate():
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
                | statements.CopyOut()
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

    async def _sync(self) -> None:
        """Always answer a Sync by ReadyForQuery; the client waits for it."""
        try:
            if self._transaction.status == "I":
                await self._control.run_cleanup(self._close_portals)
        except Exception as problem:
            await self._fail(problem)
        await self._send_ready()

    async def _fail(self, problem: Exception) -> None:
        if self._transaction.status == "T":
            self._transaction.status = "E"
        self._put(render_error(problem))

    def _put(self, data: bytes) -> None:
        self._out += data

    async def _flush(self) -> None:
        if self._out:
            data, self._out = bytes(self._out), bytearray()
            await self._send_now(data)

    async def _send_ready(self) -> None:
        self._put(wire.ready_for_query(self._transaction.status))
        await self._flush()
