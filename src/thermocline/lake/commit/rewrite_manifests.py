"""Rewrite manifests by Iceberg's Spark action, clustered by partition. Delete manifests and data files are not changed.

The action commits by itself and rebases after a lost race, which is harmless here: it changes no row and no sequence
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thermocline.errors import LostRace
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, find_op, load_table
from thermocline.lake.commit.java_values import is_in_set, string_getter
from thermocline.lake.commit.rewrite_files import carried_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenManifests:
    """The last snapshot, and the numbers of manifests before and after."""

    snapshot_id: int
    before: int
    after: int


def rewrite_manifests(
    head: LakeHead, spec_id: int, paths: Sequence[str], stamp: OpStamp, target_bytes: int
) -> RewrittenManifests:
    """Rewrite these data manifests of one spec into few manifests of about this size, clustered by partition."""
    jvm: Any = head.spark._jvm
    path = string_getter(jvm, head.table.getClass().getClassLoader(), "org.apache.iceberg.ManifestFile", "path")
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(head.spark._jsparkSession).rewriteManifests(
        head.table
    )
    action = action.specId(spec_id).rewriteIf(is_in_set(jvm, paths, path))
    _set_target(action, target_bytes)
    for key, value in (carried_summary(head) | stamp.summary()).items():
        action = action.snapshotProperty(key, value)
    done = action.execute()
    after = load_table(head.spark, head.name)
    snapshot = find_op(after, stamp.op_id)
    if snapshot is None:
        raise LostRace(f"The manifests of {head.name} were not rewritten.")
    size = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size
    return RewrittenManifests(
        snapshot_id=snapshot, before=int(size(done.rewrittenManifests())), after=int(size(done.addedManifests()))
    )


def _set_target(action: Any, target_bytes: int) -> None:
    """The action takes the size from a table property; setting the property would be another commit."""
    target = action.getClass().getDeclaredField("targetManifestSizeBytes")
    target.setAccessible(True)
    target.setLong(action, target_bytes)
