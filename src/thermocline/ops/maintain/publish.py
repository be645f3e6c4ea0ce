"""A commit of maintenance that changes no row: journaled, made on exactly the head looked at, and published to readers at once.

    writer's lock → decide unfinished ops → look → intent, files taken over → commit → publish S (T stays)

Invariant: between intent and publication the op's files are staged under its id, so that neither the janitor nor a sweep takes them,
whoever dies; the next writer of the table decides the op by its stamp.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from thermocline.catalog import journal, lake_ops
from thermocline.catalog.tables import RegisteredTable
from thermocline.errors import CommitFailed, LostRace
from thermocline.faults import fault_point
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.writer import writer_lock
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.spark.commit import LakeHead, OpStamp, load_table, settle
from thermocline.spark.inspect import read_added_files

Commit = Callable[[LakeHead, OpStamp], int]
"""Makes the snapshot on this head, with this stamp, and gives its id; `LostRace` when the table has moved."""


def commit_and_publish(
    context: PassContext, kind: str, commit: Commit, *, paths: Sequence[str] = (), counters: Mapping[str, object], message: str
) -> int:
    """Commit files of the pass, or a rewrite without files of its own; the new snapshot. A lost race is the caller's to plan again."""
    with writer_lock(context):
        if (registered := context.target.registered) is not None:
            return _on_registered(context, registered, kind, commit, paths, counters, message)
        return _on_lake_table(context, kind, commit, paths, counters, message)


def _on_registered(
    context: PassContext,
    registered: RegisteredTable,
    kind: str,
    commit: Commit,
    paths: Sequence[str],
    counters: Mapping[str, object],
    message: str,
) -> int:
    conn = context.conn
    cut = journal.claim(conn, registered.id)
    resolve_unfinished(conn, registered, context.spark, cut.fence)
    cut = journal.read_cutline(conn, registered.id)
    head = load_table(context.spark(), context.target.name)
    cut = adopt_head(conn, registered, head, cut, context.worker)
    op = journal.Op(op_id=uuid.uuid4(), table_id=registered.id, kind=kind, fence=cut.fence, t=cut.t, base=cut.s)
    with conn.transaction():
        journal.begin(conn, op, context.worker)
        lake_ops.take_over(conn, op.op_id, context.pass_id, paths)
    fault_point(f"{kind}-intent")
    try:
        snapshot = commit(head, OpStamp(op_id=str(op.op_id), kind=kind, table_id=registered.id))
    except (LostRace, CommitFailed) as problem:
        with conn.transaction():
            _give_back(context, op.op_id, paths)
            journal.abandon(conn, op, str(problem))
        raise
    fault_point(f"{kind}-committed")
    journal.publish(conn, op, snapshot=snapshot, paths=paths, counters=counters, message=message)
    fault_point(f"{kind}-published")
    return snapshot


def _on_lake_table(
    context: PassContext, kind: str, commit: Commit, paths: Sequence[str], counters: Mapping[str, object], message: str
) -> int:
    conn, lake_id = context.conn, context.target.lake_id
    assert lake_id is not None
    settle_lake_ops(context)
    head = load_table(context.spark(), context.target.name)
    op_id = uuid.uuid4()
    with conn.transaction():
        lake_ops.begin_lake_op(conn, op_id, lake_id, kind, base=head.snapshot_id, worker=context.worker, pass_id=context.pass_id)
        lake_ops.take_over(conn, op_id, context.pass_id, paths)
    fault_point(f"{kind}-intent")
    try:
        snapshot = commit(head, OpStamp(op_id=str(op_id), kind=kind, table_id=0))
    except (LostRace, CommitFailed) as problem:
        with conn.transaction():
            _give_back(context, op_id, paths)
            lake_ops.finish_lake_op(conn, op_id, snapshot=None, counters={}, message=str(problem))
        raise
    fault_point(f"{kind}-committed")
    lake_ops.finish_lake_op(conn, op_id, snapshot=snapshot, paths=paths, counters=counters, message=message)
    return snapshot


def _give_back(context: PassContext, op_id: uuid.UUID, paths: Sequence[str]) -> None:
    """Files of a commit that did not happen are the pass's again: the next try uses them."""
    if context.pass_id is not None:
        lake_ops.take_over(context.conn, context.pass_id, op_id, paths)


def settle_lake_ops(context: PassContext) -> None:
    """Decide what a dead pass began on a table that Postgres does not know: in the lake, or fenced off from it."""
    assert context.target.lake_id is not None
    for op_id in lake_ops.read_unfinished_lake_ops(context.conn, context.target.lake_id):
        snapshot = settle(context.spark(), context.target.name, str(op_id))
        paths = () if snapshot is None else read_added_files(load_table(context.spark(), context.target.name), snapshot)
        message = "did not commit; its files are the janitor's" if snapshot is None else "found in the lake after a crash"
        lake_ops.finish_lake_op(context.conn, op_id, snapshot=snapshot, paths=paths, counters={}, message=message)
