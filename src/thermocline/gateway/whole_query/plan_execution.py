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
from thermocline.gateway.lake_arm.duckdb_batches import DuckBatches
from thermocline.gateway.lake_arm.duckdb_engine import LakeEngine
from thermocline.gateway.lake_arm.row_sources import Cancelled
from thermocline.gateway.sql.fragments import Fragment, merged
from thermocline.gateway.sql.query import tier_sql as assembly
from thermocline.gateway.sql.query.grouping import Core
from thermocline.gateway.sql.query.query_plan import Statement, TableUse
from thermocline.gateway.sql.query.sql_types import Kind
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.postgres_snapshot import Snapshot
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, Shape, encode_rows

Asked = tuple[sql.Composable, list[str], list[Kind]]
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
class Report:
    """What a statement read, for EXPLAIN."""

    files_read: int = 0
    files_skipped: int = 0
    lake_bytes: int = 0
    heap_rows: int = 0
    delta_rows: int = 0
    heap_by: str = "rows"


class Run:
    """One statement on its way. Problems before the first row are `NotProvable`: Postgres can still answer."""

    def __init__(self, engine: LakeEngine, snapshot: Snapshot, statement: Statement, *, heap_limit_bytes: int) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._statement = statement
        self._heap_limit_bytes = heap_limit_bytes
        self._cursor = engine.cursor()
        self._batches: DuckBatches | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._stopped = False
        self.report = Report()

    def start(self) -> None:
        """Computes up to the first rows."""
        try:
            core = self._statement.core
            divided = core is not None and self._statement.is_divisible
            text = self._divided(core) if divided and core is not None else self._undivided()
            self._batches = DuckBatches(self._cursor, text, self._engine.turns)
            if (first := self._batches.next_batch()) is not None:
                check_types(first.schema, self._statement.query.kinds)
                self._waiting.append(first)
        except NotProvable:
            raise
        except _PROBLEMS as problem:
            if self._stopped:
                raise Cancelled from problem
            raise NotProvable(f"DuckDB could not finish: {str(problem).splitlines()[0][:200]}") from problem

    def plan_only(self) -> None:
        """What would be read of the lake, running nothing."""
        for made in self._statement.uses:
            self._lake(made)
        self.report.heap_by = "groups, computed by Postgres" if self._statement.is_divisible else "rows"

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
        for made in self._statement.uses:
            lake, delta = self._lake(made), self._delta(made)
            rows = self._read(assembly.heap_rows(made))
            self.report.heap_rows += rows.num_rows
            self._keep(f"h{made.use.number}", rows)
            sources.append(assembly.source(made, lake, delta=delta, heap=True))
        return assembly.whole(self._statement, sources)

    def _divided(self, core: Core) -> Fragment:
        """Postgres groups the heap's rows while DuckDB groups the lake's."""
        (made,) = self._statement.uses
        self.report.heap_by = "groups, computed by Postgres"
        _ = self._snapshot.name
        heap = _Background(lambda: self._read(assembly.heap_groups(self._statement, core)))
        try:
            lake, delta = self._lake(made), self._delta(made)
            text = assembly.lake_groups(core, made, lake, delta=delta)
            computing = DuckBatches(self._cursor, text, self._engine.turns)
            batches = list(computing)
            if batches:
                check_types(batches[0].schema, core.kinds)
        finally:
            groups = heap.result()
        self.report.heap_rows += groups.num_rows
        table = pa.Table.from_batches(batches) if batches else self._no_groups(core)
        self._cursor.register("lk", table)
        self._cursor.register("hk", groups)
        return assembly.combined(self._statement, core)

    def _no_groups(self, core: Core) -> pa.Table:
        return pa.table({name: pa.nulls(0, kind.arrow) for name, kind in zip(core.names, core.kinds, strict=True)})

    def _lake(self, made: TableUse) -> assembly.LakeRows | None:
        tiers = made.table.tiers
        if tiers is None or tiers.s is None:
            return None
        scan = assembly.scan_of(made, tiers)
        plan = self._engine.plan(scan)
        if plan is None:
            return None
        self.report.files_read += len(plan.data)
        self.report.files_skipped += plan.files_skipped
        self.report.lake_bytes += sum(file.size_bytes for file in plan.data)
        return assembly.LakeRows(rows=self._engine.source(plan, scan), plan=plan)

    def _delta(self, made: TableUse) -> bool:
        """Whether corrections are pending; they are registered under the use's number."""
        tiers = made.table.tiers
        if tiers is None or self._snapshot.ask(assembly.pending(tiers)) != [(True,)]:
            return False
        rows = self._read(assembly.delta_rows(made, tiers))
        self.report.delta_rows += rows.num_rows
        self._keep(f"d{made.use.number}", rows)
        return True

    def _keep(self, name: str, rows: pa.Table) -> None:
        """Rows as a table of this cursor's own: joins push filters down that DuckDB's scan of Arrow does not know."""
        self._cursor.register("arrived", rows)
        self._cursor.execute(merged("CREATE TEMP TABLE {} AS SELECT * FROM arrived", [Fragment(name)]).text)
        self._cursor.unregister("arrived")

    def _read(self, asked: Asked) -> pa.Table:
        query, names, kinds = asked
        return self._snapshot.read(query, names, kinds, limit_bytes=self._heap_limit_bytes)


def check_types(schema: pa.Schema, kinds: Sequence[Kind]) -> None:
    """DuckDB must give every column the type that was planned for it: a NULL without a type or other digits would print
    otherwise."""
    for given, kind in zip(schema.types, kinds, strict=True):
        if pa.types.is_decimal(given):
            same = kind.family == "numeric" and given.scale == kind.scale
        elif pa.types.is_timestamp(given):
            same = kind.family == ("timestamp" if given.tz is None else "timestamptz") and given.unit == "us"
        else:
            same = given == kind.arrow
        if not same:
            raise NotProvable(f"DuckDB gives {given} where {kind.family} was planned")


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


class RunRows:
    """A run as a source of rows for the client."""

    def __init__(self, run: Run, fields: Sequence[Field]) -> None:
        self._run = run
        self._fields = tuple(fields)

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self, shape: Shape) -> EncodedRows | None:
        batch = self._run.next_batch()
        return None if batch is None else encode_rows(batch, shape, [field.type_oid for field in self._fields])

    def interrupt(self) -> None:
        self._run.interrupt()

    def close(self) -> None:
        self._run.close()
