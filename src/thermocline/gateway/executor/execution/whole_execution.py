"""A whole query, as an executor runs it: heap and delta rows fetched at the snapshot, the lake scanned by DuckDB, both
at once where they can be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import adbc_driver_manager
import duckdb
import pyarrow as pa

from thermocline.errors import ThermoclineError
from thermocline.gateway.executor.execution.bulk_reader import BulkReads
from thermocline.gateway.executor.execution.duckdb_batches import DuckDbBatches
from thermocline.gateway.executor.execution.duckdb_databases import DuckDbDatabases
from thermocline.gateway.executor.jobs import DividedGroups, PostgresRead, WholeQueryJob
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat, encode_rows, to_text

MAX_FINISHED_ROWS = 50_000
_PROBLEMS = (
    duckdb.Error,
    pa.ArrowException,
    OSError,
    adbc_driver_manager.Error,
    ThermoclineError,
    MemoryError,
    ArithmeticError,
    ValueError,
)


class WholeQueryExecution:
    """One statement on its way. Problems before the first row are `NotProvable`: Postgres can still run it."""

    def __init__(self, databases: DuckDbDatabases, reads: BulkReads, job: WholeQueryJob) -> None:
        self._databases = databases
        self._job = job
        self._reads = reads.at(job.snapshot, limit_bytes=job.read_limit_bytes)
        self._cursor = databases.cursor(job.memory_bytes)
        self._batches: DuckDbBatches | None = None
        self._first: list[pa.RecordBatch] = []
        self._stopped = False
        self._read_rows: dict[str, int] = {}

    @property
    def is_ended(self) -> bool:
        return not self._first and (self._batches is None or self._batches.is_ended)

    def start(self) -> dict[str, int]:
        """Compute up to the first rows; returns the rows of each read of Postgres, by its name."""
        try:
            self._databases.prepare(self._job.lake)
            if self._job.groups is not None:
                self._compute_groups(self._job.groups)
            else:
                for read in self._job.reads:
                    self._keep(read)
            self._batches = DuckDbBatches(self._cursor, self._job.statement)
            if (first := self._batches.next_batch()) is not None:
                check_types(first.schema, self._job.sql_types)
                self._first.append(first)
        except (NotProvable, Cancelled):
            raise
        except _PROBLEMS as problem:
            if self._stopped:
                raise Cancelled from problem
            raise NotProvable(f"DuckDB could not finish: {_first_line(problem)}") from problem
        return self._read_rows

    def next_batch(self) -> pa.RecordBatch | None:
        if self._first:
            return self._first.pop()
        return None if self._batches is None else self._batches.next_batch()

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        batch = self.next_batch()
        return None if batch is None else encode_rows(batch, shape, [kind.oid for kind in self._job.sql_types])

    def arrays(self) -> list[bytes]:
        """The groups as arrays in Postgres' text form, one for each column."""
        batches: list[pa.RecordBatch] = []
        while (batch := self.next_batch()) is not None:
            batches.append(batch)
            if sum(piece.num_rows for piece in batches) > MAX_FINISHED_ROWS:
                raise NotProvable(f"more than {MAX_FINISHED_ROWS} groups for Postgres to finish")
        return [
            _render_array([value for batch in batches for value in to_text(batch.column(at)).to_pylist()])
            for at in range(len(self._job.sql_types))
        ]

    def count_rows(self) -> int:
        """Read to the end; returns the number of rows."""
        count = 0
        while (batch := self.next_batch()) is not None:
            count += batch.num_rows
        return count

    def interrupt(self) -> None:
        self._stopped = True
        self._reads.interrupt()
        self._cursor.interrupt()
        if self._batches is not None:
            self._batches.interrupt()

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()
        self._cursor.close()

    def _compute_groups(self, groups: DividedGroups) -> None:
        """Postgres groups the heap's rows while DuckDB groups the lake's."""
        heap = _Background(lambda: self._read(groups.heap))
        try:
            for read in self._job.reads:
                self._keep(read)
            batches = list(DuckDbBatches(self._cursor, groups.lake))
            if batches:
                check_types(batches[0].schema, groups.sql_types)
        finally:
            heap_groups = heap.result()
        columns = zip(groups.columns, groups.sql_types, strict=True)
        table = (
            pa.Table.from_batches(batches)
            if batches
            else pa.table({name: pa.nulls(0, sql_type.arrow_type) for name, sql_type in columns})
        )
        self._cursor.register(groups.lake_name, table)
        self._cursor.register(groups.heap.name, heap_groups)

    def _keep(self, read: PostgresRead) -> None:
        """Rows as a table of this cursor's own: joins push filters down that DuckDB's scan of Arrow does not know."""
        self._cursor.register("arrived", self._read(read))
        text = fill_template("CREATE TEMP TABLE {} AS SELECT * FROM arrived", [Fragment(read.name)]).text
        self._cursor.execute(text)
        self._cursor.unregister("arrived")

    def _read(self, read: PostgresRead) -> pa.Table:
        table = self._reads.read(read)
        self._read_rows[read.name] = table.num_rows
        return table


def check_types(schema: pa.Schema, sql_types: Sequence[SqlType]) -> None:
    """DuckDB must give every column the type that was planned for it: a NULL without a type or other digits would print
    otherwise."""
    for found, sql_type in zip(schema.types, sql_types, strict=True):
        if pa.types.is_decimal(found):
            same = sql_type.family == "numeric" and found.scale == sql_type.scale
        elif pa.types.is_timestamp(found):
            same = sql_type.family == ("timestamp" if found.tz is None else "timestamptz") and found.unit == "us"
        else:
            same = found == sql_type.arrow_type
        if not same:
            raise NotProvable(f"DuckDB gives {found} where {sql_type.family} was planned")


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0][:200]


def _render_array(values: Sequence[str | None]) -> bytes:
    quoted = (
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    )
    return ("{" + ",".join(quoted) + "}").encode()


class _Background:
    """Work in a thread of its own, its result or problem collected later."""

    def __init__(self, work: Callable[[], pa.Table]) -> None:
        self._result: pa.Table | None = None
        self._problem: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name="heap-read", daemon=True)
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
