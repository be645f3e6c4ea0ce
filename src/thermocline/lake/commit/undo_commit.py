"""Undo a commit that must not be published: the table returns to its state before, and the commit's snapshot leaves the
metadata."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from thermocline.errors import CommitFailed, ForeignLakeCommit
from thermocline.lake.commit.compare_and_swap import (
    LakeHead,
    clean_up_lost_race,
    flush_snapshot,
    load_after_failure,
    swap_metadata,
)
from thermocline.lake.commit.java_values import set_of_longs


def undo_commit(head: LakeHead, snapshot: int, base: int | None) -> None:
    """Set the table back to `base`, on exactly this head; the snapshot to undo must be its newest. The janitor removes
    the files."""
    named = [
        name for name, ref in head.metadata.get("refs", {}).items() if ref["snapshot-id"] == snapshot and name != "main"
    ]
    if head.snapshot_id != snapshot or named:
        raise ForeignLakeCommit(
            f"Snapshot {snapshot} of the lake table of {head.name} must be taken back, but others built on it:"
            f" {named[0] if named else head.snapshot_id}.",
            hint=(
                "A partition left the heap before its rows were published. Roll the lake table back to the "
                "published snapshot."
            ),
        )
    jvm: Any = head.spark._jvm
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(head.base)
    builder = builder.removeRef("main") if base is None else builder.setBranchSnapshot(base, "main")
    metadata = builder.removeSnapshots(set_of_longs(jvm, [snapshot])).build()
    try:
        swap_metadata(head, metadata)
        if base is not None:
            flush_snapshot(head, base)
    except Py4JJavaError as problem:
        after = load_after_failure(head, problem)
        if snapshot not in {one["snapshot-id"] for one in after.metadata.get("snapshots", ())}:
            return  # the reply was lost, not the commit
        if after.metadata_location != head.metadata_location:
            raise clean_up_lost_race(head, after, metadata) from None
        raise CommitFailed(
            f"Snapshot {snapshot} of {head.name} stays: {problem.java_exception.getMessage()}."
        ) from None
