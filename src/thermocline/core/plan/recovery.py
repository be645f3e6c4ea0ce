"""Which lake state agrees with a database that was restored to an earlier moment, and the metadata that states it.

Pure. The database was at a moment X: its catalog pointed at a metadata file, its cut-line published snapshot S. What
the lake committed after X is unknown to the heap, the cut-line and the delta. So the newest state that agrees is the
one of X: the pointer's own snapshot, or S when an operation had committed and not published and its files are gone
since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A metadata file that can be read: the pointer's own first, then later ones, newest first, then the one before the
    pointer's."""

    location: str
    snapshots: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTarget:
    """The metadata to build on, and the snapshot to make current; none when nothing was ever committed."""

    location: str
    snapshot_id: int | None


def plan_target(
    candidates: Sequence[Candidate], wanted: Sequence[int | None], complete: Collection[int]
) -> RecoveryTarget | None:
    """The first wanted snapshot whose files are all there, in the first metadata file that knows it; none when there is
    none."""
    for snapshot in wanted:
        for candidate in candidates:
            if snapshot is None or (snapshot in complete and snapshot in candidate.snapshots):
                return RecoveryTarget(location=candidate.location, snapshot_id=snapshot)
    return None


def plan_metadata(
    told: Mapping[str, Any], snapshot_id: int | None, alive: Collection[int], logged: Collection[str], now_ms: int
) -> dict[str, Any]:
    """The metadata with this snapshot as its current one, without snapshots whose manifest list is gone and without
    files that are gone."""
    refs = {name: ref for name, ref in told.get("refs", {}).items() if ref["snapshot-id"] in alive and name != "main"}
    if snapshot_id is not None:
        refs["main"] = {"snapshot-id": snapshot_id, "type": "branch"}
    return {
        **told,
        "last-updated-ms": max(now_ms, told["last-updated-ms"]),
        "current-snapshot-id": -1 if snapshot_id is None else snapshot_id,
        "refs": refs,
        "snapshots": [s for s in told.get("snapshots", ()) if s["snapshot-id"] in alive],
        "snapshot-log": _log(told, snapshot_id, alive, now_ms),
        "metadata-log": [entry for entry in told.get("metadata-log", ()) if entry["metadata-file"] in logged],
        **{
            key: [s for s in told[key] if s["snapshot-id"] in alive]
            for key in ("statistics", "partition-statistics")
            if key in told
        },
    }


def _log(told: Mapping[str, Any], snapshot_id: int | None, alive: Collection[int], now_ms: int) -> list[dict[str, Any]]:
    """Iceberg asks that the log ends with the current snapshot, in the order of time."""
    log = [entry for entry in told.get("snapshot-log", ()) if entry["snapshot-id"] in alive]
    if snapshot_id is not None and (not log or log[-1]["snapshot-id"] != snapshot_id):
        log.append({"snapshot-id": snapshot_id, "timestamp-ms": max(now_ms, told["last-updated-ms"])})
    return log
