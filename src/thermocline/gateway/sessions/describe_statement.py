"""Describe a client's statement: its columns and parameters and the session's state, then its constant expressions.

All of it is asked on the client's own connection to Postgres, before it is decided who runs the statement.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from thermocline.errors import StatementRefused
from thermocline.gateway.analysis.canonical_statement import CanonicalStatement
from thermocline.gateway.sessions import session_probe
from thermocline.gateway.sessions.relay_link import RelayLink
from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.parameters import decode_parameters
from thermocline.gateway.sql.query.candidates import Candidate, CanonicalQuery
from thermocline.gateway.whole_query.session_state import SessionState
from thermocline.gateway.whole_query.whole_query_service import WholeQueryRequest
from thermocline.gateway.wire import frontend_messages
from thermocline.gateway.wire.backend_frames import decode_data_row, decode_parameter_oids, decode_row_description
from thermocline.gateway.wire.frames import Frame
from thermocline.gateway.wire.frontend_messages import SYNC
from thermocline.gateway.wire.messages import Bind
from thermocline.gateway.wire.row_encoding import ResultFormat

log = logging.getLogger(__name__)

_OWN = f"thermocline_{secrets.token_hex(12)}_"
"""Prefix of the gateway's own prepared statements: random, so that no client uses one of these names."""
PROBE_NAME, CONSTANTS_NAME, FINAL_STEP_NAME, EXPORT_NAME, SAVEPOINT_NAME, ANALYSIS_NAME = (
    _OWN + suffix for suffix in ("probe", "constants", "finish", "export", "mark", "analysis")
)
_DESCRIBE_RESPONSES = 2
"""Describe of a statement is answered by ParameterDescription and by RowDescription or NoData."""
_TEXT_OID = 25
_QUERY_CANCELED = b"\0C57014\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatement:
    """One statement of the client. `prepared` are the messages that make Postgres parse and bind it without running it;
    Postgres responds to them with `response_count` messages."""

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
    """Postgres' responses to the client's own messages, its RowDescription, and what they say."""

    client_responses: tuple[Frame, ...]
    description: Frame | None
    session: SessionState
    parameters: tuple[TypedValue, ...]
    parameter_oids: tuple[int, ...]
    column_oids: tuple[int, ...]
    column_names: tuple[str, ...]

    def request(
        self,
        statement: ClientStatement,
        analysed: CanonicalStatement,
        query: CanonicalQuery,
        *,
        computed: Sequence[TypedValue],
        snapshot: str | None,
    ) -> WholeQueryRequest:
        return WholeQueryRequest(
            candidate=statement.candidate,
            statement=analysed,
            query=query,
            session=self.session,
            parameters=self.parameters,
            computed=tuple(computed),
            column_oids=self.column_oids,
            column_names=self.column_names,
            is_text=not statement.shape.all_binary(len(self.column_oids)),
            snapshot=snapshot,
        )


class LeftToPostgres(Exception):
    """Postgres has to run the statement; `reason` says why. `silent`: it reads no spanning table."""

    def __init__(
        self, reason: str, client_responses: Sequence[Frame] = (), *, engine: str = "auto", silent: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.client_responses = tuple(client_responses)
        self.engine = engine
        self.silent = silent


class RejectedByPostgres(Exception):
    """Postgres rejected the statement; `frames` hold its ErrorResponse and what preceded it."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        super().__init__("Postgres rejected the statement")
        self.frames = tuple(frames)

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancel request or the statement timeout ended it; it must not be run again then."""
        return any(frame.tag == b"E" and _QUERY_CANCELED in frame.body for frame in self.frames)


class StatementDescriber:
    """Describes statements on the client's own connection to Postgres."""

    def __init__(self, link: RelayLink) -> None:
        self._link = link

    async def describe(self, statement: ClientStatement) -> DescribedStatement:
        """One round trip: describe the client's statement and probe the session."""
        frames = await self._link.exchange(self._render(statement))
        failed = next((at for at, frame in enumerate(frames) if frame.tag == b"E"), None)
        if failed is not None:
            await self._raise_failure(statement, frames, failed)
        client_responses = tuple(frames[: statement.response_count])
        try:
            return _parse_described(statement, client_responses, frames[statement.response_count :])
        except LeftToPostgres:
            raise
        except Exception as problem:
            log.warning("the session probe returned a row that cannot be read", exc_info=problem)
            raise LeftToPostgres(
                f"the gateway does not understand the session ({type(problem).__name__})",
                client_responses=client_responses,
            ) from problem

    async def compute_constants(self, query: CanonicalQuery, described: DescribedStatement) -> list[TypedValue]:
        """The statement's constant expressions, computed in the client's session."""
        if not query.constants:
            return []
        messages = render_own_query(CONSTANTS_NAME, _render_constants(query))
        if self._link.status == "T":
            # An error in a constant must not abort the client's transaction.
            messages = [
                *render_own_query(SAVEPOINT_NAME, f"savepoint {SAVEPOINT_NAME}"),
                *messages,
                *render_own_query(SAVEPOINT_NAME, f"release savepoint {SAVEPOINT_NAME}"),
            ]
        frames = await self._link.exchange(b"".join([*messages, SYNC]))
        if any(frame.tag == b"E" for frame in frames):
            await self._raise_own_failure(frames, described.client_responses, described.session.engine)
        (row,) = (decode_data_row(frame) for frame in frames if frame.tag == b"D")
        return session_probe.parse_constants(row)

    def _render(self, statement: ClientStatement) -> bytes:
        parts = [
            statement.prepared,
            frontend_messages.describe_statement(statement.name),
            *render_own_query(PROBE_NAME, session_probe.PROBE, [statement.name.encode() or None]),
        ]
        if statement.bind is None:
            # A simple query leaves neither an unnamed portal nor an unnamed statement.
            parts += [frontend_messages.close_portal(""), frontend_messages.close_statement("")]
        return b"".join([*parts, SYNC])

    async def _raise_failure(self, statement: ClientStatement, frames: Sequence[Frame], failed: int) -> None:
        """Raises `RejectedByPostgres` for an error in the client's own messages, `LeftToPostgres` for one in ours."""
        own_from = statement.response_count + (1 if statement.bind is None else 0) + _DESCRIBE_RESPONSES
        if failed < own_from:
            raise RejectedByPostgres(frames)
        await self._raise_own_failure(frames, frames[: statement.response_count], _read_engine(frames))

    async def _raise_own_failure(
        self, frames: Sequence[Frame], client_responses: Sequence[Frame], engine: str
    ) -> NoReturn:
        errors = [frame for frame in frames if frame.tag == b"E"]
        rejected = RejectedByPostgres([*client_responses, *errors])
        has_savepoint = any(frame.tag == b"C" and frame.body.startswith(b"SAVEPOINT") for frame in frames)
        await self._clean_up(to_savepoint=has_savepoint and self._link.status == "E" and not rejected.is_cancelled)
        if self._link.status == "E" or rejected.is_cancelled:
            raise rejected
        raise LeftToPostgres(
            "Postgres did not answer the gateway's own questions", client_responses=client_responses, engine=engine
        )

    async def _clean_up(self, *, to_savepoint: bool) -> None:
        """Close what the failed messages left open; roll back to the savepoint where computing constants failed."""
        messages = [
            close(name)
            for name in (PROBE_NAME, CONSTANTS_NAME, SAVEPOINT_NAME)
            for close in (frontend_messages.close_portal, frontend_messages.close_statement)
        ]
        if to_savepoint:
            messages += [
                *render_own_query(SAVEPOINT_NAME, f"rollback to savepoint {SAVEPOINT_NAME}"),
                *render_own_query(SAVEPOINT_NAME, f"release savepoint {SAVEPOINT_NAME}"),
            ]
        await self._link.exchange(b"".join([*messages, SYNC]))


def _render_constants(query: CanonicalQuery) -> str:
    """A query that computes the statement's constant expressions: text and type of each."""
    computed = ", ".join(
        f"x{at}::pg_catalog.text, pg_catalog.pg_typeof(x{at})::pg_catalog.oid" for at in range(len(query.constants))
    )
    listed = ", ".join(f"{text} as x{at}" for at, (_, text) in enumerate(query.constants))
    return f"select {computed} from (select {listed}) c"  # noqa: S608  # the statement's own constants


def _parse_described(
    statement: ClientStatement, client_responses: tuple[Frame, ...], rest: Sequence[Frame]
) -> DescribedStatement:
    """The request made of Postgres' responses to the gateway's own messages."""
    rows = [decode_data_row(frame) for frame in rest if frame.tag == b"D"]
    description = next((frame for frame in rest if frame.tag == b"T"), None)
    oids = next((decode_parameter_oids(frame) for frame in rest if frame.tag == b"t"), ())
    session = session_probe.parse_probe_row(rows[0])
    if statement.name and session.prepared_text != statement.text:
        raise LeftToPostgres(
            "the prepared statement has another text", client_responses=client_responses, engine=session.engine
        )
    columns = decode_row_description(description) if description is not None else ()
    return DescribedStatement(
        client_responses=client_responses,
        description=description,
        session=session,
        parameters=_parse_bind(statement.bind, oids, client_responses, session.engine),
        parameter_oids=tuple(oids),
        column_oids=tuple(column.type_oid for column in columns),
        column_names=tuple(column.name for column in columns),
    )


def _read_engine(frames: Sequence[Frame]) -> str:
    """The session's `thermocline.engine`, where the probe was answered before a later message failed."""
    row = next((decode_data_row(frame) for frame in frames if frame.tag == b"D"), None)
    return session_probe.parse_probe_row(row).engine if row is not None else "auto"


def render_own_query(name: str, sql: str, values: Sequence[bytes | None] = ()) -> list[bytes]:
    """Messages of a query of the gateway's own, which leave neither statement nor portal behind.

    An earlier one that failed may have left its statement; closing a name that is free is no error.
    """
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
    """The parameter values of a Bind, as text with the types that Postgres gives them."""
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
