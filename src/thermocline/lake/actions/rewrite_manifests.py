"""Rewriting manifests by Iceberg's own Spark action, clustered by partition; delete manifests and data files are not
touched.

The action runs on a staged table: what it made is checked by the caller before it is committed on exactly the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thermocline.errors import LostRace
from thermocline.lake.actions.staged_commit import StagedTable
from thermocline.lake.commit.compare_and_swap import OpStamp
from thermocline.lake.commit.java_values import is_in_set, string_getter
from thermocline.lake.commit.rewrite_files import carried_summary


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenManifests:
    """How many manifests became how many."""

    before: int
    after: int


def rewrite_manifests(
    staged: StagedTable, spec_id: int, paths: Sequence[str], stamp: OpStamp, target_bytes: int
) -> RewrittenManifests:
    """Write these data manifests of one spec again, few, of about this size, and clustered by partition."""
    head = staged.head
    jvm: Any = head.spark._jvm
    path = string_getter(jvm, head.table.getClass().getClassLoader(), "org.apache.iceberg.ManifestFile", "path")
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(head.spark._jsparkSession).rewriteManifests(
        staged.table
    )
    action = action.specId(spec_id).rewriteIf(is_in_set(jvm, paths, path))
    _set_target(action, target_bytes)
    for key, value in (carried_summary(head) | stamp.summary()).items():
        action = action.snapshotProperty(key, value)
    done = action.execute()
    size = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size
    before, after = int(size(done.rewrittenManifests())), int(size(done.addedManifests()))
    if not before:
        raise LostRace(f"The manifests of {head.name} were not rewritten.")
    return RewrittenManifests(before=before, after=after)


def _set_target(action: Any, target_bytes: int) -> None:
    """The action goes by the table's property and takes no other size; setting the property would be a commit of its
    own."""
    target = action.getClass().getDeclaredField("targetManifestSizeBytes")
    target.setAccessible(True)
    target.setLong(action, target_bytes)
