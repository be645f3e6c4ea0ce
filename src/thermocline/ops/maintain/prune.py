"""Metadata files that left the table's history: deleted by the safety rule, never by count alone.

The table's own log keeps the newest versions (`write.metadata.previous-versions-max`); a version that fell out of it goes when no pin
names it and it is past the grace period. So the folder stays bounded, and a reader that was given a metadata file finds it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from thermocline.cold.listing import list_files
from thermocline.cold.reachable import PathSet, named_by_metadata
from thermocline.core.maintenance.orphans import judge_age
from thermocline.core.maintenance.outcome import Outcome
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.deletion import delete_files
from thermocline.ops.maintain.neighbours import check_has_own_metadata
from thermocline.ops.maintain.safety import check_may_delete, look, read_bounds

_ENDINGS = (".metadata.json", ".metadata.json.gz", ".gz.metadata.json")


def run_prune_metadata(context: PassContext) -> Outcome:
    """Delete old metadata files that nothing names."""
    started = time.monotonic()
    version = look(context)
    check_may_delete(version)
    check_has_own_metadata(context, version)
    bounds = read_bounds(context, version)
    needed = PathSet()
    needed.add(named_by_metadata(version.metadata, version.head.metadata_location))
    needed.add(bounds.metadata_files)
    needed.add(bounds.staged_files)
    now, grace = min(context.now, datetime.now(UTC)), timedelta(seconds=context.settings.staged_grace_seconds)
    old = [
        file
        for file in list_files(f"{version.metadata.location.rstrip('/')}/metadata")
        if file.path.endswith(_ENDINGS) and file.path not in needed and judge_age(file, now, grace).is_orphan
    ]
    if not old:
        return Outcome(operation="prune_metadata", status="skipped", sentence="no metadata files to prune")
    if context.dry_run:
        details = tuple(f"{file.path} would be deleted ({file.size_bytes} bytes)" for file in old[:1000])
        return Outcome(operation="prune_metadata", status="skipped", sentence=f"would prune {len(old)} metadata file(s)", details=details)
    gone = [path for part in delete_files(file.path for file in old) for path in part.paths]
    sizes = {file.path: file.size_bytes for file in old}
    return Outcome(
        operation="prune_metadata",
        status="done",
        sentence=f"pruned {len(gone)} metadata file(s)",
        counters={
            "files_deleted": len(gone),
            "bytes_freed": sum(sizes[path] for path in gone),
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
    )
