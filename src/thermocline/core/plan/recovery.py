"""Which lake state agrees with a database that was restored to an earlier moment, and the metadata that states it.

Pure. The database was restored to a moment X: its catalog points at a metadata file, its cut-line publishes snapshot S.
Heap, cut-line and delta know nothing of commits after X. So the newest state that agrees is the one of X: the current
snapshot of that metadata file, or S when an op had committed and not published and its files are gone since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryCandidate:
    """A readable metadata file. Order of preference: the one the catalog points at, later ones from the newest down,
    then the predecessor of the first."""

    location: str
    snapshots: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTarget:
    """The metadata to build on, and the snapshot to make current; none when nothing was ever committed."""

    location: str
    snapshot_id: int | None


def plan_target(
    candidates: Sequence[RecoveryCandidate], wanted: Sequence[int | None], complete: Collection[int]
) -> RecoveryTarget | None:
    """The first wanted snapshot whose files all exist, in the first metadata file that contains it; None when no
    snapshot qualifies."""
    for snapshot in wanted:
        for candidate in candidates:
            if snapshot is None or (snapshot in complete and snapshot in candidate.snapshots):
                return RecoveryTarget(location=candidate.location, snapshot_id=snapshot)
    return None


def plan_metadata(
    metadata: Mapping[str, Any], snapshot_id: int | None, alive: Collection[int], logged: Collection[str], now_ms: int
) -> dict[str, Any]:
    """The metadata with this snapshot as the current one, without snapshots whose manifest list is gone and without
    log entries of deleted files."""
    refs = {
        name: ref for name, ref in metadata.get("refs", {}).items() if ref["snapshot-id"] in alive and name != "main"
    }
    if snapshot_id is not None:
        refs["main"] = {"snapshot-id": snapshot_id, "type": "branch"}
    return {
        **metadata,
        "last-updated-ms": max(now_ms, metadata["last-updated-ms"]),
        "current-snapshot-id": -1 if snapshot_id is None else snapshot_id,
        "refs": refs,
        "snapshots": [s for s in metadata.get("snapshots", ()) if s["snapshot-id"] in alive],
        "snapshot-log": _snapshot_log(metadata, snapshot_id, alive, now_ms),
        "metadata-log": [entry for entry in metadata.get("metadata-log", ()) if entry["metadata-file"] in logged],
        **{
            key: [s for s in metadata[key] if s["snapshot-id"] in alive]
            for key in ("statistics", "partition-statistics")
            if key in metadata
        },
    }


def _snapshot_log(
    metadata: Mapping[str, Any], snapshot_id: int | None, alive: Collection[int], now_ms: int
) -> list[dict[str, Any]]:
    """Iceberg requires that the log is ordered by time and ends with the current snapshot."""
    log = [entry for entry in metadata.get("snapshot-log", ()) if entry["snapshot-id"] in alive]
    if snapshot_id is not None and (not log or log[-1]["snapshot-id"] != snapshot_id):
        log.append({"snapshot-id": snapshot_id, "timestamp-ms": max(now_ms, metadata["last-updated-ms"])})
    return log
