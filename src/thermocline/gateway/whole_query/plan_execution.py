"""A whole query being run: heap and delta rows fetched at the snapshot, the lake scanned by DuckDB, both at once where
they can be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import adbc_driver_manager
import duckdb
import psycopg
import pyarrow as pa
from psycopg import sql

from thermocline.errors import ThermoclineError
from thermocline.gateway.lake_arm.duckdb_batches import DuckDbBatches
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.lake_arm.row_sources import Cancelled
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.query import tier_sql
from thermocline.gateway.sql.query.grouping import GroupBy
from thermocline.gateway.sql.query.query_plan import QueryPlan, UsedTable
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.postgres_snapshot import PostgresSnapshot
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat, encode_rows

Asked = tuple[sql.Composable, list[str], list[SqlType]]
_PROBLEMS = (
    duckdb.Error,
    pa.ArrowException,
    psycopg.Error,
    adbc_driver_manager.Error,
    ThermoclineError,
    ArithmeticError,
    ValueError,
)


@dataclass(slots=True)
class ExecutionReport:
    """What a statement read, for EXPLAIN."""

    files_read: int = 0
    files_skipped: int = 0
    lake_bytes: int = 0
    heap_rows: int = 0
    delta_rows: int = 0
    heap_by: str = "rows"


class PlanExecution:
    """One statement on its way. Problems before the first row are `NotProvable`: Postgres can still answer."""

    def __init__(
        self, engine: DuckDbEngine, snapshot: PostgresSnapshot, statement: QueryPlan, *, heap_limit_bytes: int
    ) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._statement = statement
        self._heap_limit_bytes = heap_limit_bytes
        self._cursor = engine.cursor()
        self._batches: DuckDbBatches | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._stopped = False
        self.report = ExecutionReport()

    def start(self) -> None:
        """Computes up to the first rows."""
        try:
            group_by = self._statement.group_by
            divided = group_by is not None and self._statement.has_heap_groups
            text = self._divided(group_by) if divided and group_by is not None else self._undivided()
            self._batches = DuckDbBatches(self._cursor, text, self._engine.turns)
            if (first := self._batches.next_batch()) is not None:
                check_types(first.schema, self._statement.query.sql_types)
                self._waiting.append(first)
        except NotProvable:
            raise
        except _PROBLEMS as problem:
            if self._stopped:
                raise Cancelled from problem
            raise NotProvable(f"DuckDB could not finish: {str(problem).splitlines()[0][:200]}") from problem

    def plan_only(self) -> None:
        """What would be read of the lake, running nothing."""
        for used in self._statement.used_tables:
            self._lake(used)
        self.report.heap_by = "groups, computed by Postgres" if self._statement.has_heap_groups else "rows"

    def next_batch(self) -> pa.RecordBatch | None:
        if self._waiting:
            return self._waiting.pop()
        return None if self._batches is None else self._batches.next_batch()

    def interrupt(self) -> None:
        self._stopped = True
        self._snapshot.interrupt()
        self._cursor.interrupt()
        if self._batches is not None:
            self._batches.interrupt()

    def close(self) -> None:
        self._cursor.close()
        self._snapshot.close()

    def _undivided(self) -> Fragment:
        sources = []
        for used in self._statement.used_tables:
            lake, delta = self._lake(used), self._delta(used)
            rows = self._read(tier_sql.heap_rows(used))
            self.report.heap_rows += rows.num_rows
            self._keep(f"h{used.usage.number}", rows)
            sources.append(tier_sql.render_source(used, lake, delta=delta, heap=True))
        return tier_sql.render_whole(self._statement, sources)

    def _divided(self, group_by: GroupBy) -> Fragment:
        """Postgres groups the heap's rows while DuckDB groups the lake's."""
        (used,) = self._statement.used_tables
        self.report.heap_by = "groups, computed by Postgres"
        _ = self._snapshot.name
        heap = _Background(lambda: self._read(tier_sql.heap_groups(self._statement, group_by)))
        try:
            lake, delta = self._lake(used), self._delta(used)
            text = tier_sql.render_lake_groups(group_by, used, lake, delta=delta)
            computing = DuckDbBatches(self._cursor, text, self._engine.turns)
            batches = list(computing)
            if batches:
                check_types(batches[0].schema, group_by.sql_types)
        finally:
            groups = heap.result()
        self.report.heap_rows += groups.num_rows
        table = pa.Table.from_batches(batches) if batches else self._no_groups(group_by)
        self._cursor.register("lk", table)
        self._cursor.register("hk", groups)
        return tier_sql.render_combined(self._statement, group_by)

    def _no_groups(self, group_by: GroupBy) -> pa.Table:
        return pa.table(
            {
                name: pa.nulls(0, sql_type.arrow_type)
                for name, sql_type in zip(group_by.names, group_by.sql_types, strict=True)
            }
        )

    def _lake(self, used: UsedTable) -> tier_sql.LakeRows | None:
        tiers = used.table.tiers
        if tiers is None or tiers.s is None:
            return None
        scan = tier_sql.lake_scan(used, tiers)
        plan = self._engine.plan(scan)
        if plan is None:
            return None
        self.report.files_read += len(plan.data)
        self.report.files_skipped += plan.files_skipped
        self.report.lake_bytes += sum(file.size_bytes for file in plan.data)
        return tier_sql.LakeRows(rows=self._engine.source(plan, scan), plan=plan)

    def _delta(self, used: UsedTable) -> bool:
        """Whether corrections are pending; they are registered under the use's number."""
        tiers = used.table.tiers
        if tiers is None or not self._snapshot.read_value(tier_sql.select_pending(tiers)):
            return False
        rows = self._read(tier_sql.delta_rows(used, tiers))
        self.report.delta_rows += rows.num_rows
        self._keep(f"d{used.usage.number}", rows)
        return True

    def _keep(self, name: str, rows: pa.Table) -> None:
        """Rows as a table of this cursor's own: joins push filters down that DuckDB's scan of Arrow does not know."""
        self._cursor.register("arrived", rows)
        self._cursor.execute(fill_template("CREATE TEMP TABLE {} AS SELECT * FROM arrived", [Fragment(name)]).text)
        self._cursor.unregister("arrived")

    def _read(self, asked: Asked) -> pa.Table:
        query, names, sql_types = asked
        return self._snapshot.read(query, names, sql_types, limit_bytes=self._heap_limit_bytes)


def check_types(schema: pa.Schema, sql_types: Sequence[SqlType]) -> None:
    """DuckDB must give every column the type that was planned for it: a NULL without a type or other digits would print
    otherwise."""
    for typed_constant, sql_type in zip(schema.types, sql_types, strict=True):
        if pa.types.is_decimal(typed_constant):
            same = sql_type.family == "numeric" and typed_constant.scale == sql_type.scale
        elif pa.types.is_timestamp(typed_constant):
            same = (
                sql_type.family == ("timestamp" if typed_constant.tz is None else "timestamptz")
                and typed_constant.unit == "us"
            )
        else:
            same = typed_constant == sql_type.arrow_type
        if not same:
            raise NotProvable(f"DuckDB gives {typed_constant} where {sql_type.family} was planned")


class _Background:
    """Work in a thread of its own, its result or problem collected later."""

    def __init__(self, work: Callable[[], pa.Table]) -> None:
        self._result: pa.Table | None = None
        self._problem: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name="gateway-heap", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as problem:
            self._problem = problem

    def result(self) -> Any:
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        return self._result


class PlanRows:
    """A run as a source of rows for the client."""

    def __init__(self, run: PlanExecution, fields: Sequence[Field]) -> None:
        self._run = run
        self._fields = tuple(fields)

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        batch = self._run.next_batch()
        return None if batch is None else encode_rows(batch, shape, [field.type_oid for field in self._fields])

    def interrupt(self) -> None:
        self._run.interrupt()

    def close(self) -> None:
        self._run.close()
