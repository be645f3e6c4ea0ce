"""Intercepts statements of a relayed session that DuckDB can run exactly; all others go on to Postgres unchanged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from thermocline.core.messages.nearest import render_nearest
from thermocline.errors import ExecutorCrashed, WholeQueryRefused
from thermocline.gateway import metrics
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import ConstantRows
from thermocline.gateway.sessions.describe_statement import (
    EXPORT_NAME,
    FINAL_STEP_NAME,
    ClientStatement,
    DescribedStatement,
    LeftToPostgres,
    RejectedByPostgres,
    StatementDescriber,
    render_own_query,
)
from thermocline.gateway.sessions.error_responses import SessionError
from thermocline.gateway.sessions.relay_link import LinkClosed, RelayLink
from thermocline.gateway.sessions.statement_analysis import Analysis, StatementAnalyser
from thermocline.gateway.sessions.statement_control import StatementControl
from thermocline.gateway.sql.query.candidates import Candidate, may_read_spanning, parse_canonical, read_candidate
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.whole_query_service import (
    DefinitionsChanged,
    NotSpanning,
    WholeQuery,
    WholeQueryRequest,
    WholeQueryService,
)
from thermocline.gateway.wire import frontend_messages
from thermocline.gateway.wire import messages as wire
from thermocline.gateway.wire.backend_frames import decode_data_row
from thermocline.gateway.wire.frontend_messages import SYNC
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import ResultFormat

log = logging.getLogger(__name__)

Send = Callable[[bytes | memoryview], Awaitable[None]]

_SYNCS_PER_TIMEOUT = 4
_ENGINES = ("auto", "duckdb", "postgres")
_PASSED_ON = (
    Cancelled,
    ExecutorCrashed,
    SessionError,
    LinkClosed,
    ConnectionError,
    LeftToPostgres,
    RejectedByPostgres,
)


class QueryInterceptor:
    """Decides who runs each statement of one session, and runs those that DuckDB can."""

    def __init__(self, queries: WholeQueryService, link: RelayLink, send: Send, control: StatementControl) -> None:
        self._queries = queries
        self._link = link
        self._send = send
        self._control = control
        self._describer = StatementDescriber(link)
        self._analyser = StatementAnalyser(link, queries)
        self.is_computing = False

    async def open(self) -> None:
        """Prepare the session, before the client's first message."""
        spanning = await self._control.run_blocking(self._queries.spanning_tables)
        if spanning.names:
            await self._analyser.open()

    async def candidate(self, sql: str) -> Candidate | None:
        """The statement, when it may read a spanning table and the link can be used."""
        if not self._link.is_idle or self._link.status == "E" or not self._link.is_utf8:
            return None
        spanning = await self._control.run_blocking(self._queries.spanning_tables)
        if not may_read_spanning(sql, spanning.names):
            return None
        return await self._control.run_blocking(partial(read_candidate, sql))

    def cancel(self) -> None:
        self._control.cancel()

    async def execute(self, statement: ClientStatement) -> bytes:
        """Run the statement by DuckDB and return the messages to send before ReadyForQuery.

        Raises `LeftToPostgres` when Postgres has to run it.
        """
        with self._control.statement(statement.candidate.sql):
            self.is_computing, expired = True, False

            def expire() -> None:
                nonlocal expired
                expired = True
                self._control.cancel()

            timer: asyncio.TimerHandle | None = None
            try:
                described = await self._describer.describe(statement)
                if seconds := described.session.timeout_seconds:
                    timer = asyncio.get_running_loop().call_later(seconds, expire)
                session = self._analyser.without_own_xid(described.session)
                return await self._execute(statement, replace(described, session=session))
            except Cancelled:
                if expired:
                    raise SessionError("57014", "canceling statement due to statement timeout") from None
                raise
            finally:
                self.is_computing = False
                if timer is not None:
                    timer.cancel()

    @asynccontextmanager
    async def keep_awake(self, idle_seconds: float) -> AsyncIterator[None]:
        """Send a Sync now and then: Postgres counts its idle timeouts while DuckDB runs the statement."""
        seconds = idle_seconds / _SYNCS_PER_TIMEOUT
        done = asyncio.Event()

        async def send_syncs() -> None:
            while not done.is_set():
                try:
                    async with asyncio.timeout(seconds):
                        await done.wait()
                except TimeoutError:
                    await self._link.exchange(SYNC)

        syncing = asyncio.create_task(send_syncs()) if seconds else None
        try:
            yield
        except asyncio.CancelledError:
            # The session ends: nobody reads the response to a Sync that was sent.
            if syncing is not None:
                syncing.cancel()
            raise
        finally:
            done.set()
            if syncing is not None:
                await syncing

    async def _execute(self, statement: ClientStatement, described: DescribedStatement) -> bytes:
        session = described.session
        decline = partial(LeftToPostgres, client_responses=described.client_responses, engine=session.engine)
        if session.engine not in _ENGINES:
            raise WholeQueryRefused(
                f"thermocline.engine is {session.engine!r}; it may be auto, duckdb or postgres.",
                hint=render_nearest(session.engine, _ENGINES),
            )
        if session.engine == "postgres":
            raise decline("thermocline.engine is postgres")
        if described.description is None:
            raise decline("the statement returns no rows", silent=True)
        if self._link.status == "T" and session.isolation == "repeatable read" and self._link.has_savepoint:
            raise decline("the transaction has savepoints")
        query: WholeQuery | None = None
        try:
            try:
                analysis = await self._analyse(statement, described)
                query = WholeQuery(self._queries, await self._request(statement, described, analysis))
                async with self.keep_awake(session.idle_seconds):
                    ready = await self._open(statement, described, query)
            except NotSpanning:
                raise decline("no spanning table is read", silent=True) from None
            except NotProvable as why:
                self._control.check_interrupts()
                if isinstance(why, DefinitionsChanged) and analysis.key is not None:
                    self._queries.analyses.drop(analysis.key)
                raise decline(str(why)) from why
            except _PASSED_ON:
                raise
            except Exception as problem:
                # Nothing was sent to the client yet, so Postgres can still run the statement.
                log.warning("a whole query was left to Postgres after an internal error", exc_info=problem)
                raise decline(f"the gateway failed at it ({type(problem).__name__})") from problem
            return await ready()
        finally:
            if query is not None:
                await self._control.run_cleanup(query.close)

    async def _analyse(self, statement: ClientStatement, described: DescribedStatement) -> Analysis:
        """The statement as Postgres reads it; `NotSpanning` where it reads no spanning table."""
        analysis = await self._analyser.analyse(
            statement.candidate.sql,
            described,
            is_prepared_earlier=statement.is_prepared_earlier,
            may_wait=described.session.engine == "duckdb",
        )
        spanning = await self._control.run_blocking(self._queries.spanning_tables)
        if spanning.seam_oids.isdisjoint(analysis.statement.relation_oids):
            raise NotSpanning
        if analysis.statement.has_own_objects:
            raise NotProvable("functions, operators or types that are not Postgres' own are left to it")
        return analysis

    async def _request(
        self, statement: ClientStatement, described: DescribedStatement, analysis: Analysis
    ) -> WholeQueryRequest:
        """What DuckDB is to compute; constant expressions and the snapshot of a transaction come from Postgres."""
        query = await self._control.run_blocking(partial(parse_canonical, analysis.statement.text))
        if (reason := query.unsupported_reason or described.session.why_not_here()) is not None:
            raise NotProvable(reason)
        computed = await self._describer.compute_constants(query, described)
        is_repeatable = self._link.status == "T" and described.session.isolation == "repeatable read"
        snapshot = await self._export_snapshot() if is_repeatable else None
        return described.request(statement, analysis.statement, query, computed=computed, snapshot=snapshot)

    async def _open(
        self, statement: ClientStatement, described: DescribedStatement, query: WholeQuery
    ) -> Callable[[], Awaitable[bytes]]:
        """Compute the first rows, encoded; the returned function sends them and the rest."""
        if statement.candidate.is_explained:
            lines = await self._control.run_blocking(query.explain, query)
            return partial(self._send_explain, statement, described, lines)
        await self._control.run_blocking(query.open, query)
        if query.plan is not None and query.plan.final_step is not None:
            arrays = await self._control.run_blocking(query.arrays, query)
            return partial(self._run_final_step, statement, described, query.plan.final_step.sql, arrays)
        stream = ResultStream(query.rows([Field(name="", type_oid=oid) for oid in described.column_oids]))
        await self._control.run_blocking(partial(stream.advance, statement.shape), stream)
        return partial(self._send_stream, statement, described, stream)

    async def _export_snapshot(self) -> str:
        """The id of the snapshot that the client's transaction has."""
        frames = await self._link.exchange(
            b"".join([*render_own_query(EXPORT_NAME, "select pg_catalog.pg_export_snapshot()"), SYNC])
        )
        row = next((decode_data_row(frame) for frame in frames if frame.tag == b"D"), [None])
        (snapshot_id,) = row
        if snapshot_id is None:
            raise RejectedByPostgres(frames)
        return snapshot_id.decode()

    async def _send_responses(self, statement: ClientStatement, described: DescribedStatement) -> None:
        head = b"".join(frame.data for frame in described.client_responses)
        if statement.bind is None and described.description is not None:
            head += described.description.data
        if head:
            await self._send(head)

    async def _send_stream(
        self, statement: ClientStatement, described: DescribedStatement, stream: ResultStream
    ) -> bytes:
        await self._send_responses(statement, described)
        try:
            async with self.keep_awake(described.session.idle_seconds):
                sent = await self._send_rows(stream, statement.shape)
        except _PASSED_ON:
            raise
        except Exception as problem:
            log.warning("a whole query failed after its first rows", exc_info=problem)
            raise WholeQueryRefused(
                (
                    "DuckDB failed after the first rows were sent: "
                    f"{str(problem).splitlines()[0][:200] or type(problem).__name__}"
                ),
                hint="SET thermocline.engine = postgres and ask again: Postgres answers then.",
            ) from problem
        metrics.WHOLE_QUERIES.labels("duckdb").inc()
        return wire.command_complete(f"SELECT {sent}")

    async def _send_rows(self, stream: ResultStream, shape: ResultFormat) -> int:
        sent = 0
        while True:
            piece = stream.buffered(None)
            if piece is None:
                if not await self._control.run_blocking(partial(stream.advance, shape), stream):
                    return sent
                continue
            self._control.check_interrupts()
            data, rows = piece
            sent += rows
            await self._send(data)
            metrics.ROWS_SENT.inc(rows)
            metrics.BYTES_SENT.inc(len(data))

    async def _run_final_step(
        self, statement: ClientStatement, described: DescribedStatement, sql: str, arrays: Sequence[bytes]
    ) -> bytes:
        """Run the final step on the client's own connection; `WholeQuery` has checked its result types."""
        await self._send_responses(statement, described)
        run = [
            frontend_messages.parse(FINAL_STEP_NAME, sql),
            frontend_messages.bind(FINAL_STEP_NAME, arrays, statement.shape.formats),
            frontend_messages.execute(FINAL_STEP_NAME),
        ]
        done = [frontend_messages.close_portal(FINAL_STEP_NAME), frontend_messages.close_statement(FINAL_STEP_NAME)]
        frames = await self._link.exchange(b"".join([*run, *done, SYNC]), frozenset({b"D", b"C", b"E"}))
        if not any(frame.tag == b"3" for frame in frames):
            await self._link.exchange(frontend_messages.close_statement(FINAL_STEP_NAME) + SYNC)
        metrics.WHOLE_QUERIES.labels("duckdb").inc()
        return b""

    async def _send_explain(
        self, statement: ClientStatement, described: DescribedStatement, lines: Sequence[str]
    ) -> bytes:
        """Send the lines of EXPLAIN."""
        fields = [Field(name="QUERY PLAN", type_oid=25)]
        await self._send(b"".join(frame.data for frame in described.client_responses))
        if statement.bind is None:
            await self._send(wire.row_description(fields))
        stream = ResultStream(ConstantRows(fields, [[line.encode()] for line in lines]))
        await self._send_rows(stream, statement.shape)
        return wire.command_complete("EXPLAIN")
