"""How a statement of a relayed session is judged and, where DuckDB may, answered; every other one goes on to Postgres
unchanged."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from thermocline.errors import StatementRefused, WholeQueryRefused
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import Cancelled, ConstantRows
from thermocline.gateway.sessions import session_probe as probe
from thermocline.gateway.sessions.error_responses import SessionError
from thermocline.gateway.sessions.relay_link import LinkClosed, RelayLink
from thermocline.gateway.sessions.statement_control import StatementControl
from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.parameters import decode_parameters
from thermocline.gateway.sql.query.candidates import Candidate, may_read_spanning, parse_candidate
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.whole_query_service import (
    NotSpanning,
    WholeQuery,
    WholeQueryRequest,
    WholeQueryService,
)
from thermocline.gateway.wire import frontend_messages
from thermocline.gateway.wire import messages as wire
from thermocline.gateway.wire.backend_frames import decode_data_row, decode_parameter_oids, decode_row_description
from thermocline.gateway.wire.frames import Frame
from thermocline.gateway.wire.frontend_messages import SYNC
from thermocline.gateway.wire.messages import Bind, Field
from thermocline.gateway.wire.row_encoding import ResultFormat

log = logging.getLogger(__name__)

Send = Callable[[bytes | memoryview], Awaitable[None]]

_OWN = f"thermocline_{secrets.token_hex(12)}_"
"""How the names of the gateway's own prepared statements begin: no client can have one of these names."""
_PROBE, _CONSTANTS, _FINISH, _EXPORT, _MARK = (
    _OWN + word for word in ("probe", "constants", "finish", "export", "mark")
)
_WAKES_WITHIN_A_TIMEOUT = 4
_ENGINES = ("auto", "duckdb", "postgres")
_DESCRIPTION_ANSWERS = 2
_TEXT_OID = 25
_CANCELLED = b"\0C57014\0"
_PASSED_ON = (Cancelled, SessionError, LinkClosed, ConnectionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatement:
    """One statement of the client, ready to be judged: what is sent to Postgres for it, without running it."""

    candidate: Candidate
    text: str
    prepared: bytes
    name: str
    bind: Bind | None = None
    response_count: int = 0
    is_prepared_earlier: bool = False

    @property
    def shape(self) -> ResultFormat:
        return ResultFormat(self.bind.result_formats if self.bind is not None else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStatement:
    """What Postgres said of a statement and of its session."""

    client_responses: tuple[Frame, ...]
    description: Frame | None
    request: WholeQueryRequest


class LeftToPostgres(Exception):
    """Postgres answers the statement, and this is why; `silent` when no spanning table is involved."""

    def __init__(
        self, reason: str, client_responses: Sequence[Frame] = (), *, engine: str = "auto", silent: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.client_responses = tuple(client_responses)
        self.engine = engine
        self.silent = silent


class RejectedByPostgres(Exception):
    """Postgres' own error for the statement; it has been said already by these frames."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        super().__init__("refused")
        self.frames = tuple(frames)

    @property
    def is_cancelled(self) -> bool:
        """Whether the client, or its statement timeout, ended the statement: then it must not be run again."""
        return any(frame.tag == b"E" and _CANCELLED in frame.body for frame in self.frames)


class QueryInterceptor:
    """Judges and answers the statements of one session."""

    def __init__(self, queries: WholeQueryService, link: RelayLink, send: Send, control: StatementControl) -> None:
        self._queries = queries
        self._link = link
        self._send = send
        self._control = control
        self.is_computing = False

    async def candidate(self, sql: str) -> Candidate | None:
        """The statement, when it is worth a closer look."""
        if not self._link.is_idle or self._link.status == "E" or not self._link.is_utf8:
            return None
        names = await self._control.blocking(self._queries.spanning_names)
        if not may_read_spanning(sql, names):
            return None
        found = await self._control.blocking(partial(parse_candidate, sql))
        return found if isinstance(found, Candidate) else None

    def cancel(self) -> None:
        self._control.cancel()

    async def answer(self, statement: ClientStatement) -> bytes:
        """Answers the statement and returns what is said before ReadyForQuery; `LeftToPostgres` when Postgres has to run
        it."""
        with self._control.statement(statement.candidate.sql):
            self.is_computing, expired = True, False

            def expire() -> None:
                nonlocal expired
                expired = True
                self._control.cancel()

            timer: asyncio.TimerHandle | None = None
            try:
                described = await self._describe(statement)
                if seconds := described.request.session.timeout_seconds:
                    timer = asyncio.get_running_loop().call_later(seconds, expire)
                return await self._execute(statement, described)
            except Cancelled:
                if expired:
                    raise SessionError("57014", "canceling statement due to statement timeout") from None
                raise
            finally:
                self.is_computing = False
                if timer is not None:
                    timer.cancel()

    async def _describe(self, statement: ClientStatement) -> DescribedStatement:
        """One round trip: the client's statement described, the session asked about itself, constants computed."""
        computed = ", ".join(
            f"x{at}::pg_catalog.text, pg_catalog.pg_typeof(x{at})::pg_catalog.oid"
            for at in range(len(statement.candidate.constants))
        )
        listed = ", ".join(f"{text} as x{at}" for at, (_, text) in enumerate(statement.candidate.constants))
        named = statement.name.encode() or None
        parts = [
            statement.prepared,
            frontend_messages.describe_statement(statement.name),
            *_own_query(_PROBE, probe.PROBE, [named]),
        ]
        if statement.candidate.constants:
            question = _own_query(_CONSTANTS, (f"select {computed} from (select {listed}) c"))  # noqa: S608  # the statement's own constants
            if self._link.status == "T":
                question = [
                    *_own_query(_MARK, f"savepoint {_MARK}"),
                    *question,
                    *_own_query(_MARK, f"release savepoint {_MARK}"),
                ]
            parts += question
        if statement.bind is None:
            # A simple query leaves neither behind.
            parts += [frontend_messages.close_portal(""), frontend_messages.close_statement("")]
        frames = await self._link.exchange(b"".join([*parts, SYNC]))
        failed = next((at for at, frame in enumerate(frames) if frame.tag == b"E"), None)
        if failed is not None:
            # The first answers are to the client's own messages and their description, the others to the gateway's
            # questions.
            if failed < statement.response_count + (1 if statement.bind is None else 0) + _DESCRIPTION_ANSWERS:
                raise RejectedByPostgres(frames)
            refused = RejectedByPostgres(frames)
            is_marked = any(frame.tag == b"C" and frame.body.startswith(b"SAVEPOINT") for frame in frames)
            await self._clean_up(to_mark=is_marked and self._link.status == "E" and not refused.is_cancelled)
            if self._link.status == "E" or refused.is_cancelled:
                raise refused
            raise LeftToPostgres(
                "Postgres did not answer the gateway's own questions",
                client_responses=frames[: statement.response_count],
                engine=_read_engine(frames),
            )
        client_responses = tuple(frames[: statement.response_count])
        try:
            return _parse_described(statement, client_responses, frames[statement.response_count :])
        except LeftToPostgres:
            raise
        except Exception as problem:
            log.warning("a session's description of itself could not be read", exc_info=problem)
            raise LeftToPostgres(
                f"the gateway does not understand the session ({type(problem).__name__})",
                client_responses=client_responses,
            ) from problem

    async def _clean_up(self, *, to_mark: bool) -> None:
        """Closes what failed questions left open, and undoes a failed computation of constants: Postgres may never come
        to that one."""
        left = [
            close(name)
            for name in (_PROBE, _CONSTANTS, _MARK)
            for close in (frontend_messages.close_portal, frontend_messages.close_statement)
        ]
        if to_mark:
            left += [
                *_own_query(_MARK, f"rollback to savepoint {_MARK}"),
                *_own_query(_MARK, f"release savepoint {_MARK}"),
            ]
        await self._link.exchange(b"".join([*left, SYNC]))

    @asynccontextmanager
    async def keep_awake(self, idle_seconds: float) -> AsyncIterator[None]:
        """Postgres takes the session for idle while DuckDB answers: a Sync now and then keeps its idle timeouts from
        ending it."""
        seconds = idle_seconds / _WAKES_WITHIN_A_TIMEOUT
        done = asyncio.Event()

        async def wake() -> None:
            while not done.is_set():
                try:
                    async with asyncio.timeout(seconds):
                        await done.wait()
                except TimeoutError:
                    await self._link.exchange(SYNC)

        waking = asyncio.create_task(wake()) if seconds else None
        try:
            yield
        except asyncio.CancelledError:
            # The session ends: nobody listens any more for the answer to a Sync that is on its way.
            if waking is not None:
                waking.cancel()
            raise
        finally:
            done.set()
            if waking is not None:
                await waking

    async def _execute(self, statement: ClientStatement, described: DescribedStatement) -> bytes:
        session = described.request.session
        decline = partial(LeftToPostgres, client_responses=described.client_responses, engine=session.engine)
        if session.engine not in _ENGINES:
            raise WholeQueryRefused(f"thermocline.engine is {session.engine!r}; it may be auto, duckdb or postgres.")
        if session.engine == "postgres":
            raise decline("thermocline.engine is postgres")
        if described.description is None:
            raise decline("the statement returns no rows", silent=True)
        if self._link.status == "T" and session.isolation == "repeatable read":
            if self._link.has_savepoint or session.has_written:
                raise decline("the transaction has savepoints or has written")
            described = replace(described, request=replace(described.request, snapshot=await self._export_snapshot()))
        answer = WholeQuery(self._queries, described.request)
        try:
            try:
                async with self.keep_awake(described.request.session.idle_seconds):
                    ready = await self._open(statement, described, answer)
            except NotSpanning:
                raise decline("no spanning table is read", silent=True) from None
            except NotProvable as why:
                raise decline(str(why)) from why
            except _PASSED_ON:
                raise
            except Exception as problem:
                # Nothing was said to the client yet, so Postgres can answer, whatever went wrong here.
                log.warning("a whole query was left to Postgres after an internal error", exc_info=problem)
                raise decline(f"the gateway failed at it ({type(problem).__name__})") from problem
            return await ready()
        finally:
            await self._control.run_cleanup(answer.close)

    async def _open(
        self, statement: ClientStatement, described: DescribedStatement, answer: WholeQuery
    ) -> Callable[[], Awaitable[bytes]]:
        """Computes the statement up to its first rows, in the form they are sent in; what is returned sends them."""
        if statement.candidate.is_explained:
            lines = await self._control.blocking(answer.explain, answer)
            return partial(self._send_explain, statement, described, lines)
        await self._control.blocking(answer.open, answer)
        if answer.statement is not None and answer.statement.finish is not None:
            arrays = await self._control.blocking(answer.arrays, answer)
            return partial(self._run_final_step, statement, described, answer.statement.finish.sql, arrays)
        stream = ResultStream(answer.rows([Field(name="", type_oid=oid) for oid in described.request.column_oids]))
        await self._control.blocking(partial(stream.advance, statement.shape), stream)
        return partial(self._send_stream, statement, described, stream)

    async def _export_snapshot(self) -> str:
        frames = await self._link.exchange(
            b"".join([*_own_query(_EXPORT, "select pg_catalog.pg_export_snapshot()"), SYNC])
        )
        rows = [decode_data_row(frame) for frame in frames if frame.tag == b"D"]
        if not rows or rows[0][0] is None:
            raise RejectedByPostgres(frames)
        return rows[0][0].decode()

    async def _begin(self, statement: ClientStatement, described: DescribedStatement) -> None:
        head = b"".join(frame.data for frame in described.client_responses)
        if statement.bind is None and described.description is not None:
            head += described.description.data
        if head:
            await self._send(head)

    async def _send_stream(
        self, statement: ClientStatement, described: DescribedStatement, stream: ResultStream
    ) -> bytes:
        await self._begin(statement, described)
        try:
            async with self.keep_awake(described.request.session.idle_seconds):
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
                if not await self._control.blocking(partial(stream.advance, shape), stream):
                    return sent
                continue
            self._control.check()
            data, rows = piece
            sent += rows
            await self._send(data)
            metrics.ROWS_SENT.inc(rows)
            metrics.BYTES_SENT.inc(len(data))

    async def _run_final_step(
        self, statement: ClientStatement, described: DescribedStatement, sql: str, arrays: Sequence[bytes]
    ) -> bytes:
        """The last step on the client's own connection; `WholeQuery` has seen that Postgres takes it and gives the
        statement's own types."""
        await self._begin(statement, described)
        run = [
            frontend_messages.parse(_FINISH, sql),
            frontend_messages.bind(_FINISH, arrays, statement.shape.formats),
            frontend_messages.execute(_FINISH),
        ]
        done = [frontend_messages.close_portal(_FINISH), frontend_messages.close_statement(_FINISH)]
        frames = await self._link.exchange(b"".join([*run, *done, SYNC]), frozenset({b"D", b"C", b"E"}))
        if not any(frame.tag == b"3" for frame in frames):
            await self._link.exchange(frontend_messages.close_statement(_FINISH) + SYNC)
        metrics.WHOLE_QUERIES.labels("duckdb").inc()
        return b""

    async def _send_explain(
        self, statement: ClientStatement, described: DescribedStatement, lines: Sequence[str]
    ) -> bytes:
        """EXPLAIN's answer."""
        fields = [Field(name="QUERY PLAN", type_oid=25)]
        await self._send(b"".join(frame.data for frame in described.client_responses))
        if statement.bind is None:
            await self._send(wire.row_description(fields))
        stream = ResultStream(ConstantRows(fields, [[link.encode()] for link in lines]))
        await self._send_rows(stream, statement.shape)
        return wire.command_complete("EXPLAIN")


def _parse_described(
    statement: ClientStatement, client_responses: tuple[Frame, ...], rest: Sequence[Frame]
) -> DescribedStatement:
    """Postgres' answers to the gateway's questions."""
    rows = [decode_data_row(frame) for frame in rest if frame.tag == b"D"]
    description = next((frame for frame in rest if frame.tag == b"T"), None)
    oids = next((decode_parameter_oids(frame) for frame in rest if frame.tag == b"t"), ())
    session = probe.parse_probe_row(rows[0])
    if statement.name and session.prepared_text != statement.text:
        raise LeftToPostgres(
            "the prepared statement has another text", client_responses=client_responses, engine=session.engine
        )
    columns = decode_row_description(description) if description is not None else ()
    request = WholeQueryRequest(
        candidate=statement.candidate,
        session=session,
        parameters=_parse_bind(statement.bind, oids, client_responses, session.engine),
        computed=tuple(probe.given_of(rows[1])) if statement.candidate.constants else (),
        column_oids=tuple(column.type_oid for column in columns),
        column_names=tuple(column.name for column in columns),
        is_prepared_earlier=statement.is_prepared_earlier,
        is_text=not statement.shape.all_binary(len(columns)),
        snapshot=None,
    )
    return DescribedStatement(client_responses=client_responses, description=description, request=request)


def _read_engine(frames: Sequence[Frame]) -> str:
    """The engine the session wishes for, where the probe was answered before a later question failed."""
    row = next((decode_data_row(frame) for frame in frames if frame.tag == b"D"), None)
    return probe.parse_probe_row(row).engine if row is not None else "auto"


def _own_query(name: str, sql: str, values: Sequence[bytes | None] = ()) -> list[bytes]:
    """A question of the gateway's own, leaving nothing behind. One that failed may have left its name: closing a free
    name is no error."""
    run = [
        frontend_messages.close_statement(name),
        frontend_messages.parse(name, sql, [_TEXT_OID] * len(values)),
        frontend_messages.bind(name, values),
        frontend_messages.execute(name),
    ]
    return [*run, frontend_messages.close_portal(name), frontend_messages.close_statement(name)]


def _parse_bind(
    bind: Bind | None, oids: Sequence[int], client_responses: Sequence[Frame], engine: str
) -> tuple[TypedValue, ...]:
    if bind is None:
        return ()
    try:
        texts = decode_parameters(bind.parameters, bind.parameter_formats, oids)
        return tuple(
            TypedValue(None if value is None else value.decode("utf-8"), oid)
            for value, oid in zip(texts, oids, strict=True)
        )
    except (StatementRefused, UnicodeDecodeError, ValueError) as problem:
        raise LeftToPostgres(
            "a parameter in a form the gateway does not read", client_responses=client_responses, engine=engine
        ) from problem
