"""Remove every row of a lake table in one commit."""

from __future__ import annotations

from typing import Any

from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, commit_snapshot, find_op


def remove_every_row(head: LakeHead, stamp: OpStamp) -> int:
    """Remove every data file, and the deletes that apply to them, in one commit on exactly this head; returns the new
    snapshot's id."""
    if (done := find_op(head, stamp.op_id)) is not None:
        return done
    jvm: Any = head.spark._jvm
    update = head.table.newDelete().deleteFromRowFilter(jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
    for key, value in stamp.summary().items():
        update.set(key, value)
    return commit_snapshot(head, update, stamp.op_id)
