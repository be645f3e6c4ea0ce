"""Plan whole queries, open them at a Postgres snapshot and run them. All calls block."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from thermocline.errors import PostgresUnreachable, ThermoclineError
from thermocline.gateway.analysis import analysis_queries
from thermocline.gateway.analysis.analysis_cache import AnalysisCache
from thermocline.gateway.analysis.analysis_rate import AnalysisRate
from thermocline.gateway.analysis.canonical_statement import CanonicalStatement
from thermocline.gateway.executor.executor_stream import ExecutorRows
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.expressions.query_settings import QuerySettings
from thermocline.gateway.sql.query.candidates import Candidate, CanonicalQuery, check_statement
from thermocline.gateway.sql.query.query_plan import QueryPlan, plan_query
from thermocline.gateway.sql.query.source_tables import Tiers, key_of, table_nodes
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.plan_execution import PlanExecution
from thermocline.gateway.whole_query.postgres_snapshot import PostgresSnapshot, SnapshotPool
from thermocline.gateway.whole_query.resolve_tables import QUERIES, read_source_tables
from thermocline.gateway.whole_query.session_state import SessionState
from thermocline.gateway.wire.messages import Field

_FRESH_SECONDS = 5.0


class NotSpanning(Exception):
    """The statement reads no spanning table, so Postgres runs it."""


class DefinitionsChanged(NotProvable):
    """The catalog is no longer what it was when Postgres analysed the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanningTables:
    """The names of spanning tables and the OIDs of their seams."""

    names: frozenset[str] = frozenset()
    seam_oids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpanningRow:
    names: list[str]
    seam_oids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQueryRequest:
    """A statement of a client as Postgres reads it, with the state of its session and Postgres' description of it."""

    candidate: Candidate
    statement: CanonicalStatement
    query: CanonicalQuery
    session: SessionState
    parameters: tuple[TypedValue, ...]
    computed: tuple[TypedValue, ...]
    column_oids: tuple[int, ...]
    column_names: tuple[str, ...]
    is_text: bool
    snapshot: str | None


class WholeQueryService:
    """The pools and caches that all sessions share."""

    def __init__(self, dsn: str, engine: DuckDbEngine, catalog: CatalogReader, *, at_once: int) -> None:
        self.snapshots = SnapshotPool(dsn, at_once=at_once)
        self.engine = engine
        self.catalog = catalog
        self.analyses = AnalysisCache()
        self.analysis_rate = AnalysisRate()
        self._spanning = SpanningTables()
        self._spanning_read_at = float("-inf")
        self._text_is_c: bool | None = None

    def open(self) -> None:
        self.snapshots.open()

    def close(self) -> None:
        self.snapshots.close()

    def text_is_c(self, snapshot: PostgresSnapshot) -> bool:
        """Whether the database's own collation, which never changes, orders text by its bytes."""
        if self._text_is_c is None:
            self._text_is_c = bool(snapshot.read_value(QUERIES["default_is_c"]))
        return self._text_is_c

    def spanning_tables(self) -> SpanningTables:
        """The spanning tables, cached for a few seconds; none where the catalog is missing."""
        if time.monotonic() - self._spanning_read_at > _FRESH_SECONDS:
            try:
                with self.catalog.connection() as conn, conn.cursor(row_factory=class_row(_SpanningRow)) as cursor:
                    (row,) = cursor.execute(QUERIES["spanning_tables"].encode()).fetchall()
                self._spanning = SpanningTables(
                    names=frozenset(name.lower() for name in row.names),
                    seam_oids=frozenset(row.seam_oids),
                )
            except (psycopg.Error, PostgresUnreachable):
                self._spanning = SpanningTables()
            self._spanning_read_at = time.monotonic()
        return self._spanning


class WholeQuery:
    """One running statement: opened, then read as rows or as arrays for its final step, then closed."""

    def __init__(self, queries: WholeQueryService, request: WholeQueryRequest) -> None:
        self._queries = queries
        self._request = request
        self._snapshot: PostgresSnapshot | None = None
        self._run: PlanExecution | None = None
        self._stopped = False
        self.plan: QueryPlan | None = None

    def open(self) -> None:
        """Plan, and compute up to the first rows; `NotProvable` says why Postgres has to run the statement instead."""
        self._plan()
        if self._run is not None:
            self._run.start()

    def explain(self) -> list[str]:
        """The lines of EXPLAIN; with ANALYZE the statement is run first."""
        self._plan()
        if self._run is None or self.plan is None:
            raise Cancelled
        started, rows = time.monotonic(), 0
        if self._request.candidate.is_analyzed:
            self._run.start()
            rows = self._run.stream.count_rows()
        else:
            self._run.plan_only()
        lines = _render_explain(self.plan, self._run)
        if self._request.candidate.is_analyzed:
            lines.append(
                f"  actual: {rows} rows, {self._run.report.heap_rows} from the heap, {time.monotonic() - started:.3f} s"
            )
        return lines

    def rows(self, fields: Sequence[Field]) -> ExecutorRows:
        if self._run is None:
            raise Cancelled
        return ExecutorRows(fields, self._run.stream)

    def arrays(self) -> list[bytes]:
        """The groups as arrays in Postgres' text form, one for each column."""
        if self._run is None:
            raise Cancelled
        return self._run.stream.arrays()

    def interrupt(self) -> None:
        self._stopped = True
        snapshot, run = self._snapshot, self._run
        if run is not None:
            run.interrupt()
        elif snapshot is not None:
            snapshot.interrupt()

    def close(self) -> None:
        if self._run is not None:
            self._run.close()
        elif self._snapshot is not None:
            self._snapshot.close()
        self._run = self._snapshot = None

    def _plan(self) -> None:
        request, queries = self._request, self._queries
        try:
            self._snapshot = queries.snapshots.take(request.snapshot)
            if self._stopped:
                raise Cancelled
            tree = plan_spanning_query(self._snapshot, request, queries)
        except (psycopg.Error, ThermoclineError) as problem:
            if self._stopped:
                raise Cancelled from problem
            raise NotProvable(
                f"the gateway's own look at Postgres failed: {str(problem).splitlines()[0][:200]}"
            ) from problem
        self.plan = tree
        self._check_types(tree)
        self._run = PlanExecution(
            queries.engine, self._snapshot, tree, heap_limit_bytes=queries.catalog.candidate_limit_bytes
        )

    def _check_types(self, statement: QueryPlan) -> None:
        """Raise unless the plan returns the columns that Postgres described for the statement."""
        if self._request.candidate.is_explained or self._snapshot is None:
            return
        if statement.final_step is not None:
            try:
                types = self._snapshot.result_types(statement.final_step.sql)
            except psycopg.Error as problem:
                raise NotProvable(
                    f"Postgres does not take the last step: {str(problem).splitlines()[0][:200]}"
                ) from problem
            if types != self._request.column_oids:
                raise NotProvable("Postgres types the last step otherwise")
            return
        found = tuple(sql_type.oid for sql_type in statement.query.sql_types)
        if found != self._request.column_oids:
            raise NotProvable(f"types {found} were expected, and Postgres says {self._request.column_oids}")
        if any(
            name is not None and name != described
            for name, described in zip(statement.query.names, self._request.column_names, strict=True)
        ):
            raise NotProvable("Postgres names the columns otherwise")
        if self._request.is_text and not self._request.session.prints_plainly:
            raise NotProvable("the session prints values in a way of its own")


def plan_spanning_query(
    snapshot: PostgresSnapshot, request: WholeQueryRequest, queries: WholeQueryService
) -> QueryPlan:
    """Plan the statement over its tables at the snapshot."""
    check_definitions(snapshot, request.statement, request.session)
    tree = check_statement(request.query.tree)
    keys = list(dict.fromkeys(key_of(node) for node in table_nodes(tree)))
    tables = read_source_tables(snapshot, request.session.role, keys, queries.catalog)
    if tables is None:
        raise NotSpanning
    if (reason := request.query.unsupported_reason or request.session.why_not_here()) is not None:
        raise NotProvable(reason)
    setting = QuerySettings(
        sql=request.query.text,
        parameters=request.parameters,
        computed={span: value for (span, _), value in zip(request.query.constants, request.computed, strict=True)},
        utc=request.session.utc,
        text_is_c=queries.text_is_c(snapshot),
    )
    return plan_query(tree, setting, tables)


def check_definitions(snapshot: PostgresSnapshot, statement: CanonicalStatement, session: SessionState) -> None:
    """Raise unless the statement's relations are defined, and found on the search path, as they were when Postgres
    analysed it."""
    query = analysis_queries.render_definitions(statement.relation_oids, session.path)
    if snapshot.read_value(query) != statement.definitions:
        raise DefinitionsChanged("the catalog has changed since Postgres read the statement")


def _render_explain(statement: QueryPlan, run: PlanExecution) -> list[str]:
    report = run.report
    lines = [
        "Thermocline whole query",
        "  engine: duckdb, because every part of the statement is known to give Postgres' own result",
    ]
    for used in statement.used_tables:
        tiers: Tiers | None = used.table.tiers
        if tiers is None:
            lines.append(f"  table {used.table.name}: rows from Postgres")
            continue
        lines.append(f"  spanning table {used.table.name}: heap at or above T, lake snapshot {tiers.s} below it")
    lines.append(f"  lake: {report.files_read} files read, {report.files_skipped} skipped, {report.lake_bytes} bytes")
    lines.append(f"  heap: {report.heap_by}")
    if statement.final_step is not None:
        lines.append("  finished by Postgres over the groups")
    return lines
