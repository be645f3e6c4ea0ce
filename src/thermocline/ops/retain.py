"""Retention: rows of the lake below R expire, whole files at a time.

raise the line (writes below it are refused from here) → look at the lake → intent → commit → publish R and S, purge delta and spill
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog.tables import RegisteredTable
from thermocline.cold.metadata import read_lake_table
from thermocline.core.axis import AXIS_MAX, AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.plan.retention import FileRange, RetentionPlan, plan_retention
from thermocline.errors import LakeLayoutUnsupported, LostRace
from thermocline.faults import fault_point
from thermocline.hot.retention import apply_expiry, raise_line, read_bounds, read_line
from thermocline.ops.resolve import check_head_is_published, expiring
from thermocline.pg import Connection
from thermocline.settings import Settings
from thermocline.spark.commit import LakeHead, OpStamp, load_table, remove_below


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What one pass of retention did."""

    line: str | None = None
    files: int = 0
    notes: tuple[str, ...] = ()


def retain(conn: Connection, registered: RegisteredTable, spark: Callable[[], SparkSession], settings: Settings, worker: str) -> Retained:
    """Expire what is due, under the table's lock and the token that was claimed. Spark is asked for only when a bound has passed."""
    cut = journal.read_cutline(conn, registered.id)
    current = read_line(conn, registered.id)
    if registered.lake_retention is None or current is None or cut.s is None:
        return Retained()
    seen = read_bounds(conn, registered.id)
    bounds = [end for lo, hi, _ in seen for end in (lo, hi)]
    lowest_held = min((lo for lo, _, is_held in seen if is_held), default=AXIS_MAX)
    published = AXIS_MIN if cut.r is None else cut.r
    if plan_retention(registered.key_type, cut.t, registered.lake_retention, bounds, lowest_held, (), published) is None:
        return Retained()
    head = load_table(spark(), TableName(registered.lake_namespace, registered.lake_name))
    check_head_is_published(head, registered.name, cut)
    plan = plan_retention(
        registered.key_type, cut.t, registered.lake_retention, bounds, lowest_held, read_ranges(head, registered), published
    )
    if plan is None or plan.line == published:
        return Retained(notes=plan.notes if plan else ())
    raise_line(conn, registered.id, plan.line, settings.lock_timeout_ms)
    fault_point("retain-line-raised")
    op = journal.Op(op_id=uuid.uuid4(), table_id=registered.id, kind="retain", fence=cut.fence, t=cut.t, base=cut.s)
    journal.begin(conn, op, worker)
    fault_point("retain-intent")
    return _commit_and_publish(conn, registered, head, op, plan)


def _commit_and_publish(conn: Connection, registered: RegisteredTable, head: LakeHead, op: journal.Op, plan: RetentionPlan) -> Retained:
    snapshot = None
    if plan.remove:
        stamp = OpStamp(op_id=str(op.op_id), kind=op.kind, table_id=registered.id, t=op.t)
        try:
            snapshot = remove_below(head, registered.tier_key, plan.line, stamp)
        except LostRace as problem:
            journal.abandon(conn, op, str(problem))
            raise
        fault_point("retain-committed")
        journal.note_phase(conn, op, "committed", snapshot=snapshot)
    line = render_axis(registered.key_type, plan.line)
    message = f"rows below {line} expired; {len(plan.remove)} files left the lake"
    counters = {"files_removed": len(plan.remove), "r": plan.line}
    table = expiring(registered)
    journal.publish(conn, op, snapshot=snapshot, paths=(), counters=counters, message=message, mark=lambda: apply_expiry(conn, table))
    fault_point("retain-published")
    tables.insert_event(conn, registered.id, "retain", f"{registered.name}: {message}.")
    return Retained(line=line, files=len(plan.remove), notes=(message, *plan.notes))


def read_ranges(head: LakeHead, registered: RegisteredTable) -> tuple[FileRange, ...]:
    """Each data file of the head with the ends of its tier keys."""
    if head.snapshot_id is None:
        return ()
    field_id = next(column.field_id for column in registered.columns if column.name == registered.tier_key)
    found = []
    for file in read_lake_table(head.metadata_location).files(head.snapshot_id).data:
        ends = file.lower.get(field_id), file.upper.get(field_id)
        if ends[0] is None or ends[1] is None:
            raise LakeLayoutUnsupported(f"The lake file {file.path} of {head.name} has no bounds for the tier key.")
        lower, upper = (int.from_bytes(end, "little", signed=True) for end in (ends[0], ends[1]))
        found.append(FileRange(path=file.path, lower=lower, upper=upper))
    return tuple(found)
