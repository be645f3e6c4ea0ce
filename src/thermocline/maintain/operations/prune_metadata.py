"""Metadata files that left the table's history: deleted by the safety rule, never by count alone.

The table's own log keeps the newest versions (`write.metadata.previous-versions-max`); a version that fell out of it
goes when no pin names it and it is past the grace period by the store's clock. So the folder stays bounded, and a
reader that was given a metadata file finds it.
"""

from __future__ import annotations

import time
from datetime import timedelta

from thermocline.core.maintenance.orphans import ListedFile, judge_age
from thermocline.core.maintenance.outcome import Outcome
from thermocline.lake.files.delete_files import delete_files
from thermocline.lake.files.delete_trees import may_be_below
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.lake.files.listing import list_folder
from thermocline.lake.files.other_writers import METADATA_ENDINGS
from thermocline.lake.read.reachable import named_by_metadata
from thermocline.maintain.context import PassContext
from thermocline.maintain.neighbour_tables import check_has_own_metadata
from thermocline.maintain.safety import LakeVersion, check_may_delete, look, read_bounds, read_clock, roots_of

_METADATA_PATH = "write.metadata.path"


def run_prune_metadata(context: PassContext) -> Outcome:
    """Delete old metadata files that nothing names."""
    started = time.monotonic()
    version = look(context)
    check_may_delete(context, version)
    check_has_own_metadata(context, version)
    old = _find_old(context, version)
    if not old:
        return Outcome(operation="prune_metadata", status="skipped", sentence="no metadata files to prune")
    if context.dry_run:
        details = tuple(f"{file.path} would be deleted ({file.size_bytes} bytes)" for file in old[:1000])
        return Outcome(
            operation="prune_metadata",
            status="skipped",
            sentence=f"would prune {len(old)} metadata file(s)",
            details=details,
        )
    gone = [file for part in delete_files(old) for file in part.files]
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


def _find_old(context: PassContext, version: LakeVersion) -> tuple[Deletable, ...]:
    """The metadata files that neither the head nor its log nor a pin names, past the grace period."""
    bounds = read_bounds(context, version)
    needed = NeededFiles(str(context.target.name), roots_of(version))
    needed.need(lambda: named_by_metadata(version.metadata, version.head.metadata_location))
    needed.need_paths(bounds.metadata_files)
    needed.need_paths(bounds.staged_files)
    now, grace = read_clock(version), timedelta(seconds=context.settings.staged_grace_seconds)
    listed = [file for file in _list_metadata(version) if judge_age(file, now, grace).is_orphan]
    return needed.judge(listed).deletable


def _list_metadata(version: LakeVersion) -> list[ListedFile]:
    folders = [f"{version.metadata.location.rstrip('/')}/metadata"]
    if (other := version.head.properties.get(_METADATA_PATH)) and not may_be_below(other, folders[0]):
        folders.append(other.rstrip("/"))
    return [file for folder in folders for file in list_folder(folder) if file.path.endswith(METADATA_ENDINGS)]
