"""A commit of maintenance that changes no row: journaled, made on exactly the head looked at, and published to readers
at once.

    writer's lock → decide unfinished ops → look → intent, files taken over → commit → publish S (T stays)

Invariant: between intent and publication the op's files are staged under its id, so that neither the janitor nor a
sweep takes them, whoever dies; the next writer of the table decides the op by its stamp.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from thermocline.catalog import journal
from thermocline.catalog.maintenance import lake_ops
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.op import OpKind, kind_named
from thermocline.errors import CommitFailed, LostRace
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table, settle
from thermocline.lake.read.added_files import read_added_files
from thermocline.maintain.context import PassContext
from thermocline.maintain.writer_lock import writer_lock
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.ops.runner import Commit, LakeTableOp, TableOp, WrittenOp, plan_table_op, run_op


def commit_and_publish(
    context: PassContext,
    kind: str,
    commit: Commit,
    *,
    paths: Sequence[str] = (),
    counters: Mapping[str, object],
    message: str,
) -> int:
    """Commit files of the pass, or a rewrite without files of its own; the new snapshot. A lost race is the caller's to
    plan again."""

    def commit_or_give_back(head: LakeHead, stamp: OpStamp) -> int:
        try:
            return commit(head, stamp)
        except (LostRace, CommitFailed):
            # Files of a commit that did not happen are the pass's again: the next try uses them.
            if context.pass_id is not None:
                lake_ops.take_over(context.conn, context.pass_id, uuid.UUID(stamp.op_id), paths)
            raise

    def take_over(stamp: OpStamp, _: ExitStack) -> WrittenOp[None]:
        lake_ops.take_over(context.conn, uuid.UUID(stamp.op_id), context.pass_id, paths)
        return WrittenOp(result=None, message=message, commit=commit_or_give_back, paths=paths, counters=counters)

    with writer_lock(context):
        registered = context.target.registered
        if registered is not None:
            done = run_op(context.conn, *_begin_on_table(context, registered, kind_named(kind)), take_over)
        else:
            done = run_op(context.conn, *_begin_on_lake_table(context, kind_named(kind)), take_over)
    assert done is not None
    assert done.snapshot is not None
    return done.snapshot


def _begin_on_table(context: PassContext, registered: RegisteredTable, kind: OpKind) -> tuple[TableOp, LakeHead]:
    """Claim the table, decide what others left, and look at the lake."""
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


def settle_lake_ops(context: PassContext) -> None:
    """Decide what a dead pass began on a table that Postgres does not know: in the lake, or fenced off from it."""
    assert context.target.lake_id is not None
    for op_id in lake_ops.read_unfinished_lake_ops(context.conn, context.target.lake_id):
        snapshot = settle(context.spark(), context.target.name, str(op_id))
        paths = () if snapshot is None else read_added_files(load_table(context.spark(), context.target.name), snapshot)
        message = (
            "did not commit; its files are the janitor's" if snapshot is None else "found in the lake after a crash"
        )
        lake_ops.finish_lake_op(context.conn, op_id, snapshot=snapshot, paths=paths, counters={}, message=message)
