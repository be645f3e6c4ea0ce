"""The bounds of a pass: what Postgres, the pins, the journal and the table itself still need."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType

from thermocline.catalog.safety import Owner, read_protected_snapshots, read_staged
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.expiry import RefFact, SnapshotFact, horizon
from thermocline.errors.maintenance import GcForbidden
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.commit.create_table import OWNER_PROPERTY
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.lake.files.folders import PATH_PROPERTIES
from thermocline.lake.files.other_writers import another_owner, find_other_writer
from thermocline.lake.files.store_clock import read_store_clock
from thermocline.lake.read.reachable import every_path
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.context import PassContext

_GC_PROPERTY = "gc.enabled"
_STAGED_KEY = "wap.id"
_LOOKS, _BETWEEN_LOOKS_SECONDS = 4, 0.5
"""A commit under way has its metadata file before the catalog has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeVersion:
    """A table version that was read."""

    head: LakeHead
    metadata: TableMetadata
    snapshots: tuple[SnapshotFact, ...]
    refs: tuple[RefFact, ...]

    @property
    def by_id(self) -> Mapping[int, SnapshotFact]:
        return {snapshot.id: snapshot for snapshot in self.snapshots}


def owner_of(context: PassContext) -> Owner:
    registered = context.target.registered
    return Owner(table_id=registered.id if registered else None, lake_id=context.target.lake_id)


def read_version(context: PassContext) -> LakeVersion:
    """Read the current version of the table."""
    return read_version_of(load_table(context.spark(), context.target.name))


def read_version_of(head: LakeHead) -> LakeVersion:
    """The snapshots and refs of a loaded version."""
    metadata = read_lake_table(head.metadata_location).metadata
    refs = tuple(
        RefFact(
            name=name,
            snapshot_id=ref.snapshot_id,
            is_branch=ref.snapshot_ref_type == SnapshotRefType.BRANCH,
            min_snapshots=ref.min_snapshots_to_keep,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            max_ref_age_ms=ref.max_ref_age_ms,
        )
        for name, ref in metadata.refs.items()
    )
    return LakeVersion(head=head, metadata=metadata, snapshots=_facts(metadata, refs), refs=refs)


def _facts(metadata: TableMetadata, refs: tuple[RefFact, ...]) -> tuple[SnapshotFact, ...]:
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    on_branches: set[int] = set()
    for ref in refs:
        at: int | None = ref.snapshot_id
        while at is not None and at not in on_branches:
            on_branches.add(at)
            at = parents.get(at)
    return tuple(
        SnapshotFact(
            id=snapshot.snapshot_id,
            parent=snapshot.parent_snapshot_id,
            sequence=snapshot.sequence_number or 0,
            at_ms=snapshot.timestamp_ms,
            is_staged=snapshot.snapshot_id not in on_branches
            and snapshot.summary is not None
            and snapshot.summary.additional_properties.get(_STAGED_KEY) is not None,
        )
        for snapshot in metadata.snapshots
    )


def read_bounds(context: PassContext, version: LakeVersion) -> Bounds:
    """What is needed now. Raises when that cannot be determined, and then nothing may be deleted."""
    needs = read_protected_snapshots(
        context.conn, owner_of(context), context.pass_id, context.settings.standby_grace_seconds
    )
    bounds = Bounds(
        protected=needs.snapshots, metadata_files=needs.metadata_files, staged_files=read_staged(context.conn)
    )
    if (floor := horizon(bounds, version.by_id)) is None:
        return bounds
    return Bounds(
        protected=bounds.protected,
        metadata_files=bounds.metadata_files,
        staged_files=bounds.staged_files,
        floor_snapshot=floor.id,
        floor_holder=bounds.protected[floor.id],
    )


def read_bounds_of(context: PassContext, head: LakeHead) -> Bounds:
    """The bounds of a loaded version."""
    return read_bounds(context, read_version_of(head))


def check_may_delete(context: PassContext, version: LakeVersion) -> None:
    """Refuse when the table's files may be shared: its `gc.enabled` says so, or a writer that our catalog does not know
    left metadata."""
    check_gc_enabled(version)
    for attempt in range(_LOOKS):
        if (found := find_other_writer(version.metadata, version.head.metadata_location)) is None:
            return
        if attempt == _LOOKS - 1:
            raise another_owner(str(version.head.name), found, version.head.metadata_location)
        time.sleep(_BETWEEN_LOOKS_SECONDS * (attempt > 0))
        version = read_version(context)


def check_gc_enabled(version: LakeVersion) -> None:
    """Refuse a table with `gc.enabled=false`, whose files may be shared. Tables of our own have it to stop other
    programs."""
    properties = version.head.properties
    if properties.get(_GC_PROPERTY, "true").strip().lower() == "false" and OWNER_PROPERTY not in properties:
        raise GcForbidden(
            f"{version.head.name} has gc.enabled=false: its files may belong to other tables, so none is deleted."
        )


def read_clock(version: LakeVersion) -> datetime:
    """The time by the clock of the table's store; ages of files are judged by it only."""
    return read_store_clock(version.head.metadata_location.rpartition("/")[0])


def need_version(needed: NeededFiles, version: LakeVersion) -> None:
    """Protect every file that this version of the table names."""
    needed.need(lambda: every_path(version.metadata, version.head.metadata_location))


def roots_of(version: LakeVersion) -> tuple[str, ...]:
    """The table's own folders. Files elsewhere were added by reference and are never deleted."""
    said = (version.metadata.location, *(version.head.properties.get(key) for key in PATH_PROPERTIES))
    return tuple(dict.fromkeys(root.rstrip("/") for root in said if root))
