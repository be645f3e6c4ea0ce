"""Remove snapshots: a change of metadata alone, on exactly the head that was read. No file is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from thermocline.errors import CommitFailed
from thermocline.lake.commit.compare_and_swap import (
    LakeHead,
    clean_up_lost_race,
    flush_snapshot,
    load_after_failure,
    swap_metadata,
)
from thermocline.lake.commit.java_values import set_of_longs


def remove_snapshots(head: LakeHead, snapshots: Sequence[int], refs: Sequence[str]) -> None:
    """Remove snapshots, their statistics, and refs from the table. The caller deletes their files."""
    jvm: Any = head.spark._jvm
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(head.base)
    for ref in refs:
        builder = builder.removeRef(ref)
    metadata = builder.removeSnapshots(set_of_longs(jvm, snapshots)).build()
    if metadata.snapshots().size() != head.base.snapshots().size() - len(snapshots):
        raise CommitFailed(
            f"Iceberg would not let go of the snapshots of {head.name} that were planned; nothing was committed."
        )
    try:
        swap_metadata(head, metadata)
        if head.snapshot_id is not None:
            flush_snapshot(head, head.snapshot_id)
    except Py4JJavaError as problem:
        after = load_after_failure(head, problem)
        left = {one["snapshot-id"] for one in after.metadata.get("snapshots", ())} & set(snapshots)
        left_refs = set(after.metadata.get("refs", {})) & set(refs)
        if not left and not left_refs:
            return  # the reply was lost, not the commit
        if after.metadata_location != head.metadata_location:
            raise clean_up_lost_race(head, after, metadata) from None
        raise CommitFailed(f"The snapshots of {head.name} stay: {problem.java_exception.getMessage()}.") from None
