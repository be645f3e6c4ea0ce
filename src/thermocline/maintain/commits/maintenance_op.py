"""A maintenance op, which changes no row: journaled, committed on exactly the head that was read, published at once.

    writer's lock → decide unfinished ops → look → intent → write → commit → publish S (T stays)

Invariant: between intent and publication the op's files are staged under its id, so that neither the janitor nor a
sweep deletes them after a crash; the next writer of the table resolves the op by its stamp.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from thermocline.catalog import journal
from thermocline.catalog.maintenance import lake_ops
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.op import OpKind, kind_named
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table, settle
from thermocline.lake.read.added_files import read_added_files
from thermocline.maintain.commits.writer_lock import writer_lock
from thermocline.maintain.context import PassContext
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.ops.runner import DoneOp, LakeTableOp, TableOp, WrittenOp, plan_table_op, run_op

Result = TypeVar("Result")
WriteOnHead = Callable[[LakeHead, OpStamp], WrittenOp[Result] | None]
"""Writes what is committed on this head under this stamp; None when there is nothing to commit."""


def run_maintenance_op(context: PassContext, kind: str, write: WriteOnHead[Result]) -> DoneOp[Result] | None:
    """Run one op on the current head. On `LostRace` the caller plans again."""
    with writer_lock(context):
        registered = context.target.registered
        op: TableOp | LakeTableOp
        if registered is not None:
            op, head = _begin_on_table(context, registered, kind_named(kind))
        else:
            op, head = _begin_on_lake_table(context, kind_named(kind))

        def write_on_head(stamp: OpStamp, _: ExitStack) -> WrittenOp[Result] | None:
            return write(head, stamp)

        return run_op(context.conn, op, head, write_on_head)


def _begin_on_table(context: PassContext, registered: RegisteredTable, kind: OpKind) -> tuple[TableOp, LakeHead]:
    """Claim the table, resolve unfinished ops, and load the head."""
    conn = context.conn
    cut = journal.claim(conn, registered.id)
    resolve_unfinished(conn, registered, context.spark, cut.fence)
    cut = journal.read_cutline(conn, registered.id)
    head = load_table(context.spark(), context.target.name)
    cut = adopt_head(conn, registered, head, cut, context.worker)
    return plan_table_op(conn, registered, kind, cut, context.worker), head


def _begin_on_lake_table(context: PassContext, kind: OpKind) -> tuple[LakeTableOp, LakeHead]:
    assert context.target.lake_id is not None
    settle_lake_ops(context)
    head = load_table(context.spark(), context.target.name)
    op = LakeTableOp(
        conn=context.conn,
        lake_id=context.target.lake_id,
        kind=kind,
        op_id=uuid.uuid4(),
        base=head.snapshot_id,
        worker=context.worker,
        pass_id=context.pass_id,
    )
    return op, head


def settle_lake_ops(context: PassContext) -> bool:
    """Resolve the unfinished ops of a dead pass on a lake table that is not registered: committed, or fenced off.
    Returns whether there were any."""
    assert context.target.lake_id is not None
    unfinished = lake_ops.read_unfinished_lake_ops(context.conn, context.target.lake_id)
    for op_id in unfinished:
        snapshot = settle(context.spark(), context.target.name, str(op_id))
        paths = () if snapshot is None else read_added_files(load_table(context.spark(), context.target.name), snapshot)
        message = (
            "did not commit; its files are the janitor's" if snapshot is None else "found in the lake after a crash"
        )
        lake_ops.finish_lake_op(context.conn, op_id, snapshot=snapshot, paths=paths, counters={}, message=message)
    return bool(unfinished)
