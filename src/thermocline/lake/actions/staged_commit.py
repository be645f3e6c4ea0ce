"""Iceberg's own actions, run on a table whose commits are held back until they were checked.

An action of Iceberg commits by itself. Here it is given a table over the operations of a transaction: what it commits
becomes the transaction's pending metadata, the catalog is untouched, and the pending metadata is put on exactly the
head that was looked at, or dropped. An action that reads its own commit from a task cannot run this way, because
pending metadata has no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError

from thermocline.lake.commit.compare_and_swap import (
    LakeHead,
    clean_up_lost_race,
    find_op,
    flush_snapshot,
    load_after_failure,
    read_metadata,
    settle_failed,
    swap_metadata,
)
from thermocline.lake.commit.flush import flush_commit, flush_manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTable:
    """A table whose commits are pending; `table` is handed to Iceberg's actions."""

    head: LakeHead
    table: Any = field(repr=False, compare=False)
    operations: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSnapshot:
    """A snapshot that an action made and that is not committed."""

    id: int
    summary: Mapping[str, str]
    manifest_list: str


def stage_table(head: LakeHead) -> StagedTable:
    jvm: Any = head.spark._jvm
    operations = head.table.newTransaction().table().operations()
    table = jvm.org.apache.iceberg.BaseTable(operations, head.table.name())
    return StagedTable(head=head, table=table, operations=operations)


def read_pending(staged: StagedTable) -> tuple[dict[str, Any], tuple[PendingSnapshot, ...]]:
    """The pending metadata, and the snapshots in it that the head does not have."""
    metadata = read_metadata(staged.head.spark._jvm, staged.operations.current())
    known = {snapshot["snapshot-id"] for snapshot in staged.head.metadata.get("snapshots", ())}
    new = [snapshot for snapshot in metadata.get("snapshots", ()) if snapshot["snapshot-id"] not in known]
    return metadata, tuple(
        PendingSnapshot(
            id=snapshot["snapshot-id"], summary=snapshot.get("summary", {}), manifest_list=snapshot["manifest-list"]
        )
        for snapshot in new
    )


def commit_staged(staged: StagedTable, pending: tuple[PendingSnapshot, ...], op_id: str) -> int:
    """Put the pending snapshots on exactly the head; the id of the last."""
    head = staged.head
    metadata = staged.operations.current()
    try:
        for snapshot in pending:
            flush_manifests(snapshot.manifest_list)
        swap_metadata(head, metadata)
        for snapshot in pending:
            flush_commit(snapshot.manifest_list)
        return pending[-1].id
    except Py4JJavaError as problem:
        after = load_after_failure(head, problem)
        if (done := find_op(after, op_id)) is not None:
            return flush_snapshot(after, done)
        if after.metadata_location != head.metadata_location:
            raise clean_up_lost_race(head, after, metadata) from None
        return settle_failed(head, op_id, problem)
