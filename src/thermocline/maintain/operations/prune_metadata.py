"""Delete metadata files that are no longer in the table's log: by the safety rule, never by count alone.

The table's own log keeps the newest versions (`write.metadata.previous-versions-max`); an older version is deleted when
no pin names it and its grace period is over by the store's clock. So the folder stays bounded, and a
reader that was given a metadata file finds it.
"""

from __future__ import annotations

import time
from datetime import timedelta

from thermocline.core.maintenance.orphans import ListedFile, MetadataPlan, judge_age
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.lake.files.delete_trees import may_be_below
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.lake.files.listing import list_folder
from thermocline.lake.files.other_writers import METADATA_ENDINGS
from thermocline.lake.read.reachable import named_by_metadata
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.plans.neighbour_tables import check_has_own_metadata
from thermocline.maintain.plans.planning import Observed, Planned, PlanRequest
from thermocline.maintain.plans.safety import (
    LakeVersion,
    check_may_delete,
    read_bounds,
    read_clock,
    read_version,
    roots_of,
)

_METADATA_PATH = "write.metadata.path"


def plan_prune_metadata(request: PlanRequest) -> Planned:
    """The metadata files that neither the head nor its log nor a pin names, past the grace period."""
    operation, context = request.operation, request.context
    version = read_version(context)
    check_may_delete(context, version)
    check_has_own_metadata(context, version)
    bounds = read_bounds(context, version)
    needed = NeededFiles(str(context.target.name), roots_of(version))
    needed.need(lambda: named_by_metadata(version.metadata, version.head.metadata_location))
    needed.need_paths(bounds.metadata_files)
    needed.need_paths(bounds.staged_files)
    now, grace = read_clock(version), timedelta(seconds=context.settings.staged_grace_seconds)
    listed = [file for file in _list_metadata(version) if judge_age(file, now, grace).is_orphan]
    free = {file.path for file in needed.judge(listed).deletable}
    old = tuple(file for file in listed if file.path in free)
    return Planned(
        plan=MaintenancePlan(
            operation=operation,
            metadata_location=version.head.metadata_location,
            snapshot=version.head.snapshot_id,
            bounds=bounds,
            change=MetadataPlan(files=old) if old else None,
            idle=None if old else "no metadata files to prune",
        ),
        observed=Observed(head=version.head, needed=needed),
    )


def run_prune_metadata(applier: Applier) -> Outcome:
    """Delete the metadata files of the plan."""
    started, plan, needed = time.monotonic(), applier.plan.change, applier.observed.needed
    assert isinstance(plan, MetadataPlan)
    assert needed is not None
    gone = [file for part in applier.delete_files(needed.judge(plan.files).deletable) for file in part.files]
    return Outcome(
        operation="prune_metadata",
        status="done",
        sentence=f"pruned {len(gone)} metadata file(s)",
        counters={
            "files_deleted": len(gone),
            "bytes_freed": sum(file.size_bytes for file in gone),
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
    )


def _list_metadata(version: LakeVersion) -> list[ListedFile]:
    folders = [f"{version.metadata.location.rstrip('/')}/metadata"]
    if (other := version.head.properties.get(_METADATA_PATH)) and not may_be_below(other, folders[0]):
        folders.append(other.rstrip("/"))
    return [file for folder in folders for file in list_folder(folder) if file.path.endswith(METADATA_ENDINGS)]
