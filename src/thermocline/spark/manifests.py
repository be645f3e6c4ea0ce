"""Rewriting manifests by Iceberg's own Spark action, clustered by partition; delete manifests and data files are not touched.

The action commits by itself and rebases when it lost a race, which is harmless here: it changes no row and no file's sequence number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thermocline.core.maintenance.manifests import ManifestFact
from thermocline.errors import LostRace
from thermocline.spark.commit import LakeHead, OpStamp, find_op, load_table
from thermocline.spark.rewrite import kept_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The last snapshot made, and how many manifests became how many."""

    snapshot_id: int
    before: int
    after: int


def read_manifests(head: LakeHead) -> tuple[ManifestFact, ...]:
    """The manifests of the head, with what their list says of them."""
    snapshot = head.base.currentSnapshot()
    if snapshot is None:
        return ()
    content = head.spark._jvm.org.apache.iceberg.ManifestContent.DATA  # type: ignore[union-attr]
    rewrites = {told["snapshot-id"] for told in head.told.get("snapshots", ()) if "entries-processed" in told.get("summary", {})}
    return tuple(
        ManifestFact(
            path=str(manifest.path()),
            spec_id=int(manifest.partitionSpecId()),
            is_data=bool(manifest.content().equals(content)),
            size_bytes=int(manifest.length()),
            live_entries=int(manifest.addedFilesCount() or 0) + int(manifest.existingFilesCount() or 0),
            written_by_rewrite=manifest.snapshotId() in rewrites,
        )
        for manifest in snapshot.allManifests(head.table.io())
    )


def rewrite_manifests(head: LakeHead, spec_id: int, paths: Sequence[str], stamp: OpStamp, target_bytes: int) -> Rewritten:
    """Write these data manifests of one spec again, few, of about this size, and clustered by partition."""
    jvm: Any = head.spark._jvm
    wanted = set(paths)
    chosen = jvm.java.util.HashSet()
    for manifest in head.base.currentSnapshot().dataManifests(head.table.io()):
        if str(manifest.path()) in wanted:
            chosen.add(manifest)
    if chosen.size() != len(wanted):
        raise LostRace(f"The manifests of {head.name} changed since they were looked at.")
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(head.spark._jsparkSession).rewriteManifests(head.table)
    action = action.specId(spec_id).rewriteIf(_is_in(head, chosen))
    _set_target(action, target_bytes)
    for key, value in (kept_summary(head) | stamp.summary()).items():
        action = action.snapshotProperty(key, value)
    done = action.execute()
    after = load_table(head.spark, head.name)
    snapshot = find_op(after, stamp.op_id)
    if snapshot is None:
        raise LostRace(f"The manifests of {head.name} were not rewritten.")
    return Rewritten(snapshot_id=snapshot, before=_count(done.rewrittenManifests()), after=_count(done.addedManifests()))


def _count(found: Any) -> int:
    return sum(1 for _ in found)


def _set_target(action: Any, target_bytes: int) -> None:
    """The action goes by the table's property and takes no other size; setting the property would be a commit of its own."""
    target = action.getClass().getDeclaredField("targetManifestSizeBytes")
    target.setAccessible(True)
    target.setLong(action, target_bytes)


def _is_in(head: LakeHead, chosen: Any) -> Any:
    """`chosen::contains` as a java.util.function.Predicate, made in the JVM: a callback into Python would cost a trip per manifest."""
    jvm: Any = head.spark._jvm
    gateway: Any = head.spark.sparkContext._gateway
    handles = jvm.java.lang.invoke.MethodHandles.publicLookup()
    kinds = gateway.new_array(jvm.java.lang.Class, 0)
    types = jvm.java.lang.Class
    shape = jvm.java.lang.invoke.MethodType.methodType(jvm.java.lang.Boolean.TYPE, types.forName("java.lang.Object"), kinds)
    contains = handles.findVirtual(types.forName("java.util.Set"), "contains", shape).bindTo(chosen)
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(types.forName("java.util.function.Predicate"), contains)
