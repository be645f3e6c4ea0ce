"""Retention: rows of the lake below R expire: whole files leave the table, rows of files that reach straddling R are
deleted by position.

raise the line (writes below it are refused from here) → look at the lake → intent → write deletes → commit → publish R
and S, purge
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from thermocline.catalog import journal
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.axis import AXIS_MIN, render_axis
from thermocline.core.lake_file import FileBounds
from thermocline.core.names import TableName
from thermocline.core.op import RETAIN
from thermocline.core.plan.jumps import render_retention_jump
from thermocline.core.plan.retention import RetentionPlan, plan_retention
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, apply_row_delta, load_table
from thermocline.ops.data_files import read_files
from thermocline.ops.resolve import adopt_head
from thermocline.ops.runner import WrittenOp, plan_table_op, run_op
from thermocline.ops.spanning_table import objects_of
from thermocline.ops.tier.jumps import read_next_retention_line
from thermocline.parquet.deletes.position_deletes import WrittenDeletes
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings
from thermocline.seam.retention import PlannedLine, expire_below, read_retention_line
from thermocline.spark.jobs.expire import delete_rows
from thermocline.spark.kernels.expire_rows import ExpireTask
from thermocline.spark.kernels.fold_range import CandidateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What one pass of retention did."""

    line: str | None = None
    files: int = 0
    rows: int = 0
    notes: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRun:
    """One pass under way: the table, the lake as it was looked at, and what expires."""

    dsn: str = field(repr=False)
    registered: RegisteredTable
    head: LakeHead
    files: tuple[CandidateFile, ...]
    plan: RetentionPlan


def retain(
    conn: Connection,
    dsn: str,
    registered: RegisteredTable,
    spark: Callable[[], SparkSession],
    settings: Settings,
    worker: str,
    *,
    by_itself: bool,
) -> Retained:
    """Expire what is due, under the table's lock and the token that was claimed. Spark is started only when a bound
    has passed. `by_itself`: nobody asked for it, so it needs a table that is started."""
    cut = journal.read_cutline(conn, registered.id)
    current = read_retention_line(conn, registered.id)
    if registered.lake_retention is None or not registered.mode.allows_lake_retention:
        return Retained()
    if current is None or cut.s is None:
        return Retained()
    line, jump = read_next_retention_line(conn, registered, cut)
    if jump is not None:
        return Retained(waits=(render_retention_jump(registered.key_type, str(registered.name), jump),))
    if line is None:
        return Retained()
    head = load_table(spark(), TableName(registered.lake_namespace, registered.lake_name))
    cut = adopt_head(conn, registered, head, cut, worker)
    tier_key = next(column for column in registered.columns if column.name == registered.tier_key)
    files = read_files(head, tier_key.field_id)
    plan = plan_retention(
        line, [FileBounds(path=file.path, lower=file.lower_key, upper=file.upper_key) for file in files]
    )
    planned = PlannedLine(line=plan.line, lake_retention=registered.lake_retention, by_itself=by_itself)
    if reason := expire_below(conn, registered.id, objects_of(registered), planned, settings.lock_timeout_ms):
        return Retained(waits=(reason,))
    fault_point("retain-line-raised")
    work = RetentionRun(dsn=dsn, registered=registered, head=head, files=files, plan=plan)
    done = run_op(conn, plan_table_op(conn, registered, RETAIN, cut, worker), head, partial(_write, work))
    assert done is not None
    return done.result


def _write(work: RetentionRun, stamp: OpStamp, _: ExitStack) -> WrittenOp[Retained]:
    """Delete the rows below the line of the files that reach straddling it; files below it leave whole."""
    registered, plan = work.registered, work.plan
    straddling = set(plan.straddling)
    deletes = delete_rows(
        work.head.spark,
        ExpireTask(
            dsn=work.dsn,
            table_id=registered.id,
            op_id=stamp.op_id,
            number=0,
            files=tuple(file for file in work.files if file.path in straddling),
            tier_key=next(column for column in registered.columns if column.name == registered.tier_key),
            low=AXIS_MIN,
            high=plan.line,
            lake_partition=work.head.partition,
            directory=work.head.location,
        ),
    )
    rows = sum(delete.rows for delete in deletes)
    line = render_axis(registered.key_type, plan.line)
    deleted = f", {rows:,} rows of {len(plan.straddling)} others were deleted" if rows else ""
    message = f"rows below {line} expired; {len(plan.remove)} files left the lake{deleted}"
    return WrittenOp(
        result=Retained(line=line, files=len(plan.remove), rows=rows, notes=(message,)),
        message=message,
        event=f"{registered.name}: {message}.",
        commit=partial(_commit, plan, deletes) if plan.remove or deletes else None,
        paths=[delete.path for delete in deletes],
        counters={"files_removed": len(plan.remove), "rows_deleted": rows, "r": plan.line},
    )


def _commit(plan: RetentionPlan, deletes: tuple[WrittenDeletes, ...], head: LakeHead, stamp: OpStamp) -> int:
    return apply_row_delta(head, (), deletes, stamp, remove=plan.remove)
