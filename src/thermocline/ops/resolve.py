"""Every op somebody began and did not finish, decided: committed in the lake → published; not committed → fenced off
and abandoned.

A move of partitions of which one left the heap since is taken back out of the lake: what leaves the heap before T has
passed it is gone. A truncation is taken back as well, because publishing it later would take rows that were written
since.

A fold that is published here marks nothing: its corrections stay pending, hide what it wrote and read the same, and the
next fold marks them. So nobody has to remember, over a crash, which versions it had read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from thermocline.catalog import journal
from thermocline.catalog.tables import RegisteredTable, insert_event
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine
from thermocline.core.op import ADOPT, kind_named
from thermocline.errors import ForeignLakeCommit, PartitionGone, TruncationUndone
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table, settle
from thermocline.lake.commit.undo_commit import undo_commit
from thermocline.lake.read.added_files import read_added_files
from thermocline.lake.read.table_metadata import has_missing
from thermocline.ops.runner import plan_table_op, publish_op
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What became of unfinished ops: the partitions that are tiered now, and a sentence for each op."""

    moved: tuple[str, ...]
    notes: tuple[str, ...]


def resolve_unfinished(
    conn: Connection, registered: RegisteredTable, spark: Callable[[], SparkSession], fence: int
) -> Resolved:
    """Decide every unfinished op of a table, under the token that was just claimed."""
    lake = TableName(registered.lake_namespace, registered.lake_name)
    moved: list[str] = []
    notes: list[str] = []
    for op in journal.read_unfinished(conn, registered.id, fence):
        snapshot = settle(spark(), lake, str(op.op_id))
        fault_point("resolve-settled")
        if snapshot is None:
            journal.abandon(conn, op, "did not commit; its files are the janitor's")
            notes.append(f"abandoned operation {op.op_id}, which had not committed")
            continue
        head = load_table(spark(), lake)
        try:
            moved += _publish(conn, registered, op, snapshot, read_added_files(head, snapshot))
        except (PartitionGone, TruncationUndone) as problem:
            undo_commit(head, snapshot, op.base)
            fault_point("resolve-undone")
            journal.abandon(conn, op, f"taken back: {problem}")
            notes.append(f"took operation {op.op_id} back out of the lake: {str(problem).rstrip('.')}")
            continue
        notes.append(f"published operation {op.op_id}, which had committed before a crash")
    return Resolved(moved=tuple(moved), notes=tuple(notes))


def _publish(
    conn: Connection, registered: RegisteredTable, op: journal.Op, snapshot: int, paths: Sequence[str]
) -> tuple[str, ...]:
    if kind_named(op.kind).is_undone_after_a_crash:
        # The caller got no answer, and may have written rows since.
        raise TruncationUndone(
            f"{registered.name} was not truncated: the truncation was killed before it was published."
        )
    return publish_op(conn, registered, op, snapshot=snapshot, paths=paths, message="published after a restart")


def adopt_head(conn: Connection, registered: RegisteredTable, head: LakeHead, cut: CutLine, worker: str) -> CutLine:
    """The cut-line with S at the lake's head, or a refusal to build on rows nobody published.

    What others committed since S is adopted, and published at once, when it only replaced files by others with the same
    rows.
    """
    if head.snapshot_id == cut.s:
        return cut
    replacements = _replacements_since(head, cut.s)
    if replacements is None or head.snapshot_id is None:
        raise ForeignLakeCommit(
            f"The lake table of {registered.name} is at snapshot {head.snapshot_id}, but {cut.s} is "
            "published: others committed to it."
        )
    if has_missing(head.properties):
        raise ForeignLakeCommit(
            (
                f"Another program rewrote files of the lake table of {registered.name}, which has columns with a "
                "default for older rows."
            ),
            hint=(
                "In rows it rewrote the default may have become NULL. Roll the lake table back to the published "
                "snapshot."
            ),
        )
    op = plan_table_op(conn, registered, ADOPT, cut, worker).op
    message = f"adopted {replacements} snapshots in which another program replaced files"
    with conn.transaction():
        journal.begin(conn, op, worker)
        journal.publish(
            conn, op, snapshot=head.snapshot_id, paths=(), counters={"snapshots": replacements}, message=message
        )
    insert_event(conn, registered.id, "adopt", f"{registered.name}: {message}.")
    return journal.read_cutline(conn, registered.id)


def _replacements_since(head: LakeHead, published: int | None) -> int | None:
    """How many snapshots lie between S and the head; None when one of them did more than replace files, or S is none of
    their ancestors."""
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in head.metadata.get("snapshots", ())}
    at, count = head.snapshot_id, 0
    while at != published:
        snapshot = snapshots.get(at)
        if published is None or snapshot is None or snapshot.get("summary", {}).get("operation") != "replace":
            return None
        at, count = snapshot.get("parent-snapshot-id"), count + 1
    return count
