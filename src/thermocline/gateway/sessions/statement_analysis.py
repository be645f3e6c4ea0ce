"""Let Postgres analyse a client's statement, on the client's own connection: with its role, its search path, its time
zone and its temporary tables.

Outside a transaction the analysis is a transaction of its own that is rolled back; within one it is a savepoint that is
rolled back. That gives the client's transaction an id, which does not mean that the client has written: its locks say
whether it wrote rows, and the tags of its commands whether it changed the catalog.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from thermocline.gateway import metrics
from thermocline.gateway.analysis import analysis_queries
from thermocline.gateway.analysis.canonical_statement import AnalysisKey, CanonicalStatement, parse_analysis_row
from thermocline.gateway.analysis.clock_literals import has_clock_literal
from thermocline.gateway.sessions.describe_statement import (
    ANALYSIS_NAME,
    SAVEPOINT_NAME,
    DescribedStatement,
    render_own_query,
)
from thermocline.gateway.sessions.relay_link import RelayLink
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.session_state import SessionState
from thermocline.gateway.whole_query.whole_query_service import WholeQueryService
from thermocline.gateway.wire import frontend_messages
from thermocline.gateway.wire.backend_frames import decode_data_row
from thermocline.gateway.wire.frames import Frame
from thermocline.gateway.wire.frontend_messages import SYNC

_BEGIN = "begin isolation level read committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A canonical statement, under the key it is known by; `None` where the session alone may use it."""

    statement: CanonicalStatement
    key: AnalysisKey | None


class StatementAnalyser:
    """Analyses the statements of one session; all sessions share the cache."""

    def __init__(self, link: RelayLink, queries: WholeQueryService) -> None:
        self._link = link
        self._queries = queries
        self._own_xid: str | None = None
        self._changes_count = 0

    async def open(self) -> None:
        """Give the session its temporary schema, before the client's first message.

        A transaction that gives it to itself cannot be prepared for a commit in two phases. And a session that gets it
        later has its prepared statements analysed again by Postgres, under settings that may have changed since.
        """
        create, drop = analysis_queries.render_temporary_schema()
        await self._exchange([_BEGIN, analysis_queries.render_limits(0), create, drop, "commit"])

    def without_own_xid(self, session: SessionState) -> SessionState:
        """The session's state, in which a transaction id that an analysis was given is no write of the client's."""
        is_own = session.xid is not None and session.xid == self._own_xid
        if not is_own or session.holds_locks or self._changes_count != self._link.changes_count:
            return session
        return replace(session, has_written=False)

    async def analyse(
        self, text: str, described: DescribedStatement, *, is_prepared_earlier: bool, may_wait: bool
    ) -> Analysis:
        """The canonical form of the text; `NotProvable` says why Postgres answers the statement itself.

        `may_wait`: it is analysed although the gateway analyses many.
        """
        session = described.session
        if has_clock_literal(text):
            raise NotProvable("a literal such as 'now' is left to Postgres")
        key = AnalysisKey(text=text, parameter_oids=described.parameter_oids, settings=session.reading)
        analysed = await self._find(key, session, "select 1", may_wait=may_wait)
        if is_prepared_earlier:
            await self._check_independent(key, analysed, session, may_wait=may_wait)
        return Analysis(statement=analysed, key=None if session.has_temporary_objects else key)

    async def _check_independent(
        self, key: AnalysisKey, analysed: CanonicalStatement, session: SessionState, *, may_wait: bool
    ) -> None:
        """Raises unless the statement is the same under other settings: Postgres keeps the literals as it read them
        when the statement was prepared."""
        settings = analysis_queries.render_other_settings(session.date_style, session.interval_style)
        other_key = replace(key, settings=replace(key.settings, time_zone="", date_style="", interval_style=""))
        other = await self._find(other_key, session, settings, may_wait=may_wait)
        if other.text != analysed.text or "\\" in key.text:
            raise NotProvable(
                "the prepared statement has literals that Postgres read before, under the settings of that time"
            )

    async def _find(
        self, key: AnalysisKey, session: SessionState, settings: str, *, may_wait: bool
    ) -> CanonicalStatement:
        known = None if session.has_temporary_objects else self._queries.analyses.find(key)
        if known is not None:
            metrics.ANALYSES.labels("cached").inc()
            return known
        if session.is_read_only:
            raise NotProvable("Postgres analyses no new statement in a read-only transaction")
        if not self._queries.analysis_rate.allows(time.monotonic()) and not may_wait:
            raise NotProvable("the statement is new, and many are new at this time")
        made = await self._analyse(key, session, settings)
        if not session.has_temporary_objects:
            self._queries.analyses.add(key, made)
        return made

    async def _analyse(self, key: AnalysisKey, session: SessionState, settings: str) -> CanonicalStatement:
        if session.temporary_schema is None:
            raise NotProvable("the session has no temporary schema")
        in_transaction = self._link.status == "T"
        begin = f"savepoint {SAVEPOINT_NAME}" if in_transaction else _BEGIN
        end = _render_undo() if in_transaction else ["rollback"]
        queries = [
            begin,
            analysis_queries.render_limits(session.timeout_seconds),
            settings,
            analysis_queries.render_function(key.text, key.parameter_oids, session.temporary_schema),
            analysis_queries.render_printing(),
            analysis_queries.render_analysed(session.path),
            *end,
        ]
        frames = await self._exchange(queries)
        rows = [decode_data_row(frame) for frame in frames if frame.tag == b"D"]
        metrics.ANALYSES.labels("refused" if any(frame.tag == b"E" for frame in frames) else "analysed").inc()
        if any(frame.tag == b"E" for frame in frames):
            raise NotProvable("Postgres does not analyse this statement as the body of a function")
        row = parse_analysis_row(tuple(None if value is None else value.decode("utf-8") for value in rows[-1]))
        if in_transaction and session.xid is None:
            self._own_xid, self._changes_count = row.xid, self._link.changes_count
        return row.statement

    async def _exchange(self, queries: Sequence[str]) -> list[Frame]:
        """Run the queries; after an error, undo what they began."""
        in_transaction = self._link.status == "T"
        messages = [message for query in queries for message in render_own_query(ANALYSIS_NAME, query)]
        frames = await self._link.exchange(b"".join([*messages, SYNC]))
        if any(frame.tag == b"E" for frame in frames) and self._link.status == "E":
            undo = _render_undo() if in_transaction else ["rollback"]
            messages = [message for query in undo for message in render_own_query(ANALYSIS_NAME, query)]
            # The portal of the query that failed is still open.
            await self._link.exchange(b"".join([frontend_messages.close_portal(ANALYSIS_NAME), *messages, SYNC]))
        return frames


def _render_undo() -> list[str]:
    return [f"rollback to savepoint {SAVEPOINT_NAME}", f"release savepoint {SAVEPOINT_NAME}"]
