"""Whole queries for all sessions: judged, opened at a snapshot, run. All of it blocks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from psycopg.rows import scalar_row

from thermocline.errors import PostgresUnreachable, ThermoclineError
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.lake_arm.row_sources import Cancelled
from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.expressions.query_settings import QuerySettings
from thermocline.gateway.sql.query.candidates import Candidate, check_statement, is_setting_independent
from thermocline.gateway.sql.query.query_plan import QueryPlan, plan_query
from thermocline.gateway.sql.query.source_tables import Tiers, key_of, table_nodes
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.plan_execution import PlanExecution, PlanRows
from thermocline.gateway.whole_query.postgres_snapshot import PostgresSnapshot, SnapshotPool
from thermocline.gateway.whole_query.resolve_tables import QUERIES, read_source_tables
from thermocline.gateway.whole_query.session_state import SessionState
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import to_text

MAX_FINISHED_ROWS = 50_000
_FRESH_SECONDS = 5.0


class NotSpanning(Exception):
    """The statement reads no spanning table: it is Postgres' alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQueryRequest:
    """A statement as the client sent it, with what its session and Postgres say of it."""

    candidate: Candidate
    session: SessionState
    parameters: tuple[TypedValue, ...]
    computed: tuple[TypedValue, ...]
    column_oids: tuple[int, ...]
    column_names: tuple[str, ...]
    is_prepared_earlier: bool
    is_text: bool
    snapshot: str | None


class WholeQueryService:
    """What all sessions share."""

    def __init__(self, dsn: str, engine: DuckDbEngine, catalog: CatalogReader, *, at_once: int) -> None:
        self.snapshots = SnapshotPool(dsn, at_once=at_once)
        self.engine = engine
        self.catalog = catalog
        self._names: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
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

    def spanning_names(self) -> frozenset[str]:
        """The names of the tables that span, as of a few seconds ago; where the catalog is missing, none do."""
        if time.monotonic() - self._asked_at > _FRESH_SECONDS:
            try:
                with self.catalog.connection() as conn, conn.cursor(row_factory=scalar_row) as cursor:
                    names = cursor.execute(QUERIES["spanning_names"].encode()).fetchall()
                self._names = frozenset(str(name).lower() for name in names)
            except (psycopg.Error, PostgresUnreachable):
                self._names = frozenset()
            self._asked_at = time.monotonic()
        return self._names


class WholeQuery:
    """One statement's answer: opened, then read as rows or as arrays to finish; closed in the end."""

    def __init__(self, queries: WholeQueryService, asked: WholeQueryRequest) -> None:
        self._queries = queries
        self._asked = asked
        self._snapshot: PostgresSnapshot | None = None
        self._run: PlanExecution | None = None
        self._stopped = False
        self.plan: QueryPlan | None = None

    def open(self) -> None:
        """Plans and computes up to the first rows; `NotProvable` says why Postgres has to answer instead."""
        self._plan()
        if self._run is not None:
            self._run.start()

    def explain(self) -> list[str]:
        """The plan in words; with ANALYZE, after running it."""
        self._plan()
        if self._run is None or self.plan is None:
            raise Cancelled
        begun, rows = time.monotonic(), 0
        if self._asked.candidate.is_analyzed:
            self._run.start()
            while (batch := self._run.next_batch()) is not None:
                rows += batch.num_rows
        else:
            self._run.plan_only()
        lines = _explained(self.plan, self._run)
        if self._asked.candidate.is_analyzed:
            lines.append(
                f"  actual: {rows} rows, {self._run.report.heap_rows} from the heap, {time.monotonic() - begun:.3f} s"
            )
        return lines

    def rows(self, fields: Sequence[Field]) -> PlanRows:
        if self._run is None:
            raise Cancelled
        return PlanRows(self._run, fields)

    def arrays(self) -> list[bytes]:
        """The groups as arrays in Postgres' text form, one for each column."""
        if self._run is None or self.plan is None:
            raise Cancelled
        batches: list[pa.RecordBatch] = []
        while (batch := self._run.next_batch()) is not None:
            batches.append(batch)
            if sum(piece.num_rows for piece in batches) > MAX_FINISHED_ROWS:
                raise NotProvable(f"more than {MAX_FINISHED_ROWS} groups for Postgres to finish")
        count = len(self.plan.query.sql_types)
        return [
            _array([value for batch in batches for value in to_text(batch.column(at)).to_pylist()])
            for at in range(count)
        ]

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
        asked, queries = self._asked, self._queries
        try:
            self._snapshot = queries.snapshots.take(asked.snapshot)
            tree = plan_spanning_query(self._snapshot, asked, queries)
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
        """Postgres itself said what the statement returns: whoever understands it otherwise must not answer it."""
        if self._asked.candidate.is_explained or self._snapshot is None:
            return
        if statement.final_step is not None:
            try:
                types = self._snapshot.result_types(statement.final_step.sql)
            except psycopg.Error as problem:
                raise NotProvable(
                    f"Postgres does not take the last step: {str(problem).splitlines()[0][:200]}"
                ) from problem
            if types != self._asked.column_oids:
                raise NotProvable("Postgres types the last step otherwise")
            return
        found = tuple(sql_type.oid for sql_type in statement.query.sql_types)
        if found != self._asked.column_oids:
            raise NotProvable(f"types {found} were expected, and Postgres says {self._asked.column_oids}")
        if any(
            name is not None and name != said
            for name, said in zip(statement.query.names, self._asked.column_names, strict=True)
        ):
            raise NotProvable("Postgres names the columns otherwise")
        if self._asked.is_text and not self._asked.session.prints_plainly:
            raise NotProvable("the session prints values in a way of its own")


def plan_spanning_query(snapshot: PostgresSnapshot, asked: WholeQueryRequest, queries: WholeQueryService) -> QueryPlan:
    """The statement over the tables as the snapshot has them."""
    tree = check_statement(asked.candidate.tree)
    keys = list(dict.fromkeys(key_of(node) for node in table_nodes(tree)))
    tables = read_source_tables(snapshot, asked.session.role, keys, queries.catalog)
    if tables is None:
        raise NotSpanning
    if (reason := asked.candidate.unsupported_reason or asked.session.why_not_here()) is not None:
        raise NotProvable(reason)
    if asked.is_prepared_earlier and not is_setting_independent(tree):
        raise NotProvable(
            "the prepared statement has literals that Postgres read before, under the settings of that time"
        )
    setting = QuerySettings(
        sql=asked.candidate.sql,
        parameters=asked.parameters,
        computed={span: value for (span, _), value in zip(asked.candidate.constants, asked.computed, strict=True)},
        utc=asked.session.utc,
        literals_in_utc=asked.session.utc and not asked.is_prepared_earlier,
        text_is_c=queries.text_is_c(snapshot),
    )
    return plan_query(tree, setting, tables)


def _array(values: Sequence[str | None]) -> bytes:
    quoted = (
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    )
    return ("{" + ",".join(quoted) + "}").encode()


def _explained(statement: QueryPlan, run: PlanExecution) -> list[str]:
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
