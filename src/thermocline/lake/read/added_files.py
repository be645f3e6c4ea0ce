"""The files that a snapshot added."""

from __future__ import annotations

from typing import Any

from thermocline.lake.commit.compare_and_swap import LakeHead


def read_added_files(head: LakeHead, snapshot_id: int) -> tuple[str, ...]:
    """The data and delete files a snapshot added."""
    jvm: Any = head.spark._jvm
    changes = (
        jvm.org.apache.iceberg.SnapshotChanges.builderFor(head.table).snapshot(head.table.snapshot(snapshot_id)).build()
    )
    return tuple(
        str(file.location()) for added in (changes.addedDataFiles(), changes.addedDeleteFiles()) for file in added
    )
