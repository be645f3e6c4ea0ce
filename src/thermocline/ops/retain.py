"""Retention: rows of the lake below R expire: whole files leave the table, rows of files that reach across R are deleted by position.

raise the line (writes below it are refused from here) → look at the lake → intent → write deletes → commit → publish R and S, purge
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.axis import AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.plan.jumps import render_line_jump
from thermocline.core.plan.retention import FileRange, RetentionPlan, plan_retention
from thermocline.errors import LostRace, ThermoclineError
from thermocline.faults import fault_point
from thermocline.hot.retention import raise_line, read_line
from thermocline.ops.jumps import read_next_line
from thermocline.ops.lake_listing import read_files
from thermocline.ops.resolve import adopt_head, publish_expiry
from thermocline.pg import Connection
from thermocline.settings import Settings
from thermocline.spark.commit import LakeHead, OpStamp, apply_row_delta, load_table
from thermocline.spark.jobs.expire import delete_rows
from thermocline.spark.kernels.expire import ExpireTask
from thermocline.spark.kernels.fold_deletes import DeleteFile
from thermocline.spark.kernels.fold_in import FileSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What one pass of retention did."""

    line: str | None = None
    files: int = 0
    rows: int = 0
    notes: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retaining:
    """One pass under way: the connection that holds the table's lock, the table, and the lake as it was looked at."""

    conn: Connection
    dsn: str = field(repr=False)
    registered: RegisteredTable
    head: LakeHead
    op: journal.Op
    files: tuple[FileSeen, ...]
    plan: RetentionPlan


def retain(
    conn: Connection, dsn: str, registered: RegisteredTable, spark: Callable[[], SparkSession], settings: Settings, worker: str
) -> Retained:
    """Expire what is due, under the table's lock and the token that was claimed. Spark is asked for only when a bound has passed."""
    cut = journal.read_cutline(conn, registered.id)
    current = read_line(conn, registered.id)
    if registered.lake_retention is None or current is None or cut.s is None:
        return Retained()
    line, jump = read_next_line(conn, registered, cut)
    if jump is not None:
        return Retained(waits=(render_line_jump(registered.key_type, str(registered.name), jump),))
    if line is None:
        return Retained()
    head = load_table(spark(), TableName(registered.lake_namespace, registered.lake_name))
    cut = adopt_head(conn, registered, head, cut, worker)
    tier_key = next(column for column in registered.columns if column.name == registered.tier_key)
    files = read_files(head, tier_key.field_id)
    plan = plan_retention(line, [FileRange(path=file.path, lower=file.lower_key, upper=file.upper_key) for file in files])
    raise_line(conn, registered.id, plan.line, settings.lock_timeout_ms)
    fault_point("retain-line-raised")
    op = journal.Op(op_id=uuid.uuid4(), table_id=registered.id, kind="retain", fence=cut.fence, t=cut.t, base=cut.s)
    journal.begin(conn, op, worker)
    fault_point("retain-intent")
    work = Retaining(conn=conn, dsn=dsn, registered=registered, head=head, op=op, files=files, plan=plan)
    return _commit_and_publish(work, _write(work))


def _write(work: Retaining) -> tuple[DeleteFile, ...]:
    """Deletes of the rows below the line, of the files that reach across it."""
    across = set(work.plan.across)
    try:
        return delete_rows(
            work.head.spark,
            ExpireTask(
                dsn=work.dsn,
                table_id=work.registered.id,
                op_id=str(work.op.op_id),
                number=0,
                files=tuple(file for file in work.files if file.path in across),
                tier_key=next(column for column in work.registered.columns if column.name == work.registered.tier_key),
                low=AXIS_MIN,
                high=work.plan.line,
                lake_partition=work.head.partition,
                directory=work.head.location,
            ),
        )
    except ThermoclineError as problem:
        journal.abandon(work.conn, work.op, str(problem))
        raise


def _commit_and_publish(work: Retaining, deletes: tuple[DeleteFile, ...]) -> Retained:
    conn, registered, op, plan = work.conn, work.registered, work.op, work.plan
    rows = sum(delete.rows for delete in deletes)
    counters = {"files_removed": len(plan.remove), "rows_deleted": rows, "r": plan.line}
    journal.note_phase(conn, op, "written", counters=counters)
    fault_point("retain-written")
    snapshot = None
    if plan.remove or deletes:
        stamp = OpStamp(op_id=str(op.op_id), kind=op.kind, table_id=registered.id, t=op.t)
        try:
            snapshot = apply_row_delta(work.head, (), deletes, stamp, remove=plan.remove)
        except LostRace as problem:
            journal.abandon(conn, op, str(problem))
            raise
        fault_point("retain-committed")
        journal.note_phase(conn, op, "committed", snapshot=snapshot)
    line = render_axis(registered.key_type, plan.line)
    deleted = f", {rows:,} rows of {len(plan.across)} others were deleted" if rows else ""
    message = f"rows below {line} expired; {len(plan.remove)} files left the lake{deleted}"
    publish_expiry(conn, registered, op, snapshot=snapshot, paths=[delete.path for delete in deletes], message=message)
    fault_point("retain-published")
    tables.insert_event(conn, registered.id, "retain", f"{registered.name}: {message}.")
    return Retained(line=line, files=len(plan.remove), rows=rows, notes=(message,))
