"""The session of `postgres_fdw` and other clients of the lake: transactions, cursors, prepared statements, portals.

It has no socket: it gets messages and a function that sends bytes. Blocking work runs in threads and can be
interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import assert_never

from thermocline.errors import StatementRefused
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.lake_query_service import LakeQueryService
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.sessions.error_responses import SessionError, render_error
from thermocline.gateway.sessions.open_portal import ROW_STATEMENTS, check_setting, command_tag, open_portal
from thermocline.gateway.sessions.statement_control import StatementControl
from thermocline.gateway.sessions.transaction import Cursor, Portal, PreparedStatement, SizedByName, Transaction
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
from thermocline.gateway.wire.protocol import MAX_MESSAGE_BYTES
from thermocline.gateway.wire.row_encoding import ResultFormat, result_format_of

log = logging.getLogger(__name__)

Send = Callable[[bytes | memoryview], Awaitable[None]]

_KEPT_BYTES = 2 * MAX_MESSAGE_BYTES
_ALWAYS_ALLOWED = (statements.Rollback, statements.RollbackTo, statements.Commit)
_MAX_OPEN_RESULTS = 2_048  # a statement of many subqueries over a foreign table opens a cursor for each


class LakeSession:
    """Runs the statements of one client."""

    def __init__(self, lake_queries: LakeQueryService, send: Send, control: StatementControl) -> None:
        self._lake_queries = lake_queries
        self._send_now = send
        self._control = control
        self._transaction = Transaction()
        self._cursors: SizedByName[Cursor] = SizedByName()
        self._prepared: SizedByName[PreparedStatement] = SizedByName()
        self._portals: SizedByName[Portal] = SizedByName()
        self._out = bytearray()
        self._executor = lake_queries.session_executor()
        self._login = ""

    def log_in(self, login: str) -> None:
        """The login whose rights every statement has; before it is known, nothing may be read."""
        self._login = login

    async def answer(self, message: FrontendMessage) -> bool:
        """Process one message; False when the rest up to Sync must be skipped."""
        match message:
            case Query():
                await self._process_simple(message)
                return True
            case Sync():
                await self._sync()
                return True
        try:
            await self._process_extended(message)
        except Exception as problem:
            await self._fail(problem)
            return False
        return True

    def cancel(self) -> None:
        """Stops the statement that runs now, if one does."""
        self._control.cancel()

    def close(self) -> None:
        """Close all cursors and portals; called from a thread."""
        self._close_cursors(self._cursors.names())
        self._close_portals()
        self._executor.close()

    async def _process_simple(self, query: Query) -> None:
        try:
            await self._control.run_cleanup(partial(self._close_portal, ""))
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

    async def _process_extended(self, message: FrontendMessage) -> None:
        match message:
            case Parse():
                self._prepared.pop(message.name)
                prepared = PreparedStatement(sql=message.sql, oids=message.parameter_oids)
                self._check_memory(prepared.size_bytes)
                self._prepared.put(message.name, prepared)
                self._put(wire.PARSE_COMPLETE)
            case Bind():
                await self._bind(message)
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

    async def _bind(self, message: Bind) -> None:
        prepared = self._prepared.get(message.statement)
        if prepared is None:
            raise SessionError("26000", f"prepared statement {message.statement!r} does not exist")
        pieces = statements.split_statements(prepared.sql)
        if len(pieces) > 1:
            raise SessionError("42601", "cannot insert multiple commands into a prepared statement")
        statement = statements.parse_statement(pieces[0]) if pieces else None
        values = decode_parameters(message.parameters, message.parameter_formats, prepared.oids)
        if not message.portal:
            await self._control.run_cleanup(partial(self._close_portal, ""))
        elif self._portals.get(message.portal) is not None:
            raise SessionError("42P03", f'portal "{message.portal}" already exists')
        self._check_open_results()
        portal = Portal(
            statement=statement,
            parameters=values,
            oids=prepared.oids,
            formats=message.result_formats,
            text=prepared.sql,
        )
        self._check_memory(portal.size_bytes)
        self._portals.put(message.portal, portal)
        self._put(wire.BIND_COMPLETE)

    def _check_memory(self, added_bytes: int) -> None:
        """Refuse to keep more statements and parameters than a session may; a cursor keeps those of its portal."""
        held_bytes = self._prepared.held_bytes + self._portals.held_bytes + self._cursors.held_bytes
        if held_bytes + added_bytes > _KEPT_BYTES:
            raise SessionError("53200", "the session keeps too many prepared statements, portals and cursors")

    def _check_open_results(self) -> None:
        """Each has file descriptors, which all sessions share."""
        if len(self._cursors.names()) + len(self._portals.names()) >= _MAX_OPEN_RESULTS:
            raise SessionError("54000", f"a session has at most {_MAX_OPEN_RESULTS} open cursors and portals")

    def _portal(self, name: str) -> Portal:
        portal = self._portals.get(name)
        if portal is None:
            raise SessionError("34000", f"portal {name!r} does not exist")
        return portal

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
                described = await self._control.run_blocking(
                    lambda: self._lake_queries.describe(sql, oids, self._login)
                )
            self._prepared.put(name, PreparedStatement(sql=prepared.sql, oids=described.parameter_oids))
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
                partial(
                    open_portal, self._lake_queries, portal, self._transaction.analyzed, self._executor, self._login
                )
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
        if self._cursors.get(statement.name) is not None:
            raise SessionError("42P03", f'cursor "{statement.name}" already exists')
        self._check_open_results()
        constants = parse_parameters(portal.parameters, portal.oids)
        analyzed = frozenset(self._transaction.analyzed)

        def open_stream() -> ResultStream:
            return self._lake_queries.open_select(
                statement.sql,
                constants,
                portal.parameters,
                analyzed=analyzed,
                executor=self._executor,
                login=self._login,
            )

        self._check_memory(portal.size_bytes)
        stream = await self._control.run_blocking(open_stream)
        self._cursors.put(statement.name, Cursor(open=open_stream, stream=stream, size_bytes=portal.size_bytes))
        self._put(wire.command_complete("DECLARE CURSOR"))

    def _cursor(self, name: str) -> Cursor:
        cursor = self._cursors.get(name)
        if cursor is None:
            raise SessionError("34000", f'cursor "{name}" does not exist')
        return cursor

    async def _fetch(self, statement: statements.Fetch, *, describe: bool, formats: tuple[int, ...]) -> None:
        stream = self._cursor(statement.name).stream
        sent = await self._send_rows(
            stream, describe=describe, max_rows=statement.count, shape=result_format_of(formats)
        )
        self._put(wire.command_complete(f"FETCH {sent}"))

    async def _stream(self, portal: Portal, *, describe: bool, max_rows: int | None) -> None:
        stream = await self._open(portal)
        sent = await self._send_rows(
            stream, describe=describe, max_rows=max_rows, shape=result_format_of(portal.formats)
        )
        if max_rows is not None and sent == max_rows:
            self._put(wire.PORTAL_SUSPENDED)
            return
        await self._control.run_cleanup(partial(_close_stream, stream))
        self._put(wire.command_complete(command_tag(portal.statement, sent)))

    async def _copy_out(self, portal: Portal) -> None:
        stream = await self._open(portal)
        try:
            fields = await self._control.run_blocking(stream.fields, stream)
            self._put(wire.copy_out_response(len(fields)))
            sent = await self._send_rows(stream, describe=False, max_rows=None, shape=ResultFormat(is_copy=True))
        finally:
            await self._control.run_cleanup(partial(_close_stream, stream))
        self._put(wire.COPY_DONE + wire.command_complete(command_tag(portal.statement, sent)))

    async def _send_rows(
        self, stream: ResultStream, *, describe: bool, max_rows: int | None, shape: ResultFormat
    ) -> int:
        """Send up to `max_rows` rows. After a failure it is unknown which of them arrived, so the result stays
        failed."""
        stream.check_format(shape)
        try:
            return await self._send_batches(stream, describe=describe, max_rows=max_rows, shape=shape)
        except BaseException as problem:
            stream.fail(problem)
            await self._control.run_cleanup(partial(_close_stream, stream))
            raise

    async def _send_batches(
        self, stream: ResultStream, *, describe: bool, max_rows: int | None, shape: ResultFormat
    ) -> int:
        """One batch is in memory at a time: the socket sets the pace."""
        sent = 0
        if describe:
            fields = await self._control.run_blocking(stream.fields, stream)
            self._put(wire.row_description(fields, shape.formats))
        while max_rows is None or sent < max_rows:
            self._control.check_interrupts()
            piece = stream.buffered(None if max_rows is None else max_rows - sent)
            if piece is None:
                if not await self._control.run_blocking(partial(stream.advance, shape), stream):
                    break
                continue
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
                check_setting(statement.name, statement.value)
                self._put(wire.command_complete("SET"))
            case statements.Begin():
                self._transaction.status = "T"
                self._put(wire.command_complete(statement.tag))
            case statements.Commit() | statements.Rollback():
                kept = isinstance(statement, statements.Commit) and self._transaction.status != "E"
                self._close_cursors(self._cursors.names())
                self._close_portals()
                self._transaction = Transaction()
                self._put(wire.command_complete("COMMIT" if kept else "ROLLBACK"))
            case statements.Savepoint() | statements.Release() | statements.RollbackTo():
                self._savepoint(statement)
            case statements.RewindCursor():
                cursor = self._cursor(statement.name)
                stream, cursor.stream = cursor.stream, cursor.open()
                _close_stream(stream)
                self._put(wire.command_complete("MOVE 0"))
            case statements.CloseCursor():
                if statement.name is not None:
                    self._cursor(statement.name)
                self._close_cursors(self._cursors.names() if statement.name is None else (statement.name,))
                self._put(wire.command_complete("CLOSE CURSOR"))
            case statements.Deallocate():
                if statement.everything:
                    self._prepared = SizedByName()
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

    def _savepoint(self, statement: statements.Savepoint | statements.Release | statements.RollbackTo) -> None:
        match statement:
            case statements.Savepoint():
                self._transaction.save(statement.name, frozenset(self._cursors.names()))
                tag = "SAVEPOINT"
            case statements.Release():
                self._transaction.release(statement.name)
                tag = "RELEASE"
            case statements.RollbackTo():
                kept = self._transaction.roll_back_to(statement.name)
                self._close_cursors(name for name in self._cursors.names() if name not in kept)
                tag = "ROLLBACK"
        self._put(wire.command_complete(tag))

    def _close_cursors(self, names: Iterable[str]) -> None:
        for name in names:
            if (cursor := self._cursors.pop(name)) is not None:
                _close_stream(cursor.stream)

    def _close_portals(self) -> None:
        for name in self._portals.names():
            self._close_portal(name)

    def _close_portal(self, name: str) -> None:
        portal = self._portals.pop(name)
        if portal is not None and portal.stream is not None:
            _close_stream(portal.stream)

    def _forget_named(self, message: Close) -> None:
        if message.kind == "S":
            self._prepared.pop(message.name)
            return
        self._close_portal(message.name)

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


def _close_stream(stream: ResultStream) -> None:
    """Close a result. A failure is logged and never keeps the other results of the session open."""
    try:
        stream.close()
    except Exception as problem:
        log.exception("a result could not be closed: %s", problem)
