"""Which snapshots of a table may go: pure.

Invariant: no snapshot expires that is current, the head of a branch or tag that stays, among the newest to keep, inside
its retention, protected by the bounds, or at or above the oldest snapshot that somebody needs (the horizon).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.orphans import ListedFile

MAIN = "main"
STAGED_RETENTION_MS = 7 * 24 * 3_600_000
"""How long a staged (write-audit-publish) snapshot waits for its audit, when the policy keeps snapshots for less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFact:
    """A snapshot as the table's metadata describes it. `sequence` orders snapshots; in format v1 their times do."""

    id: int
    parent: int | None
    sequence: int
    at_ms: int
    is_staged: bool = False
    """Written for an audit (`wap.id`) and not yet part of any branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefFact:
    """A branch or tag with its own retention, where it has one."""

    name: str
    snapshot_id: int
    is_branch: bool
    min_snapshots: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """The snapshots and refs that go, and who kept snapshots that were otherwise due."""

    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    held: Mapping[int, str]

    @property
    def is_empty(self) -> bool:
        return not self.snapshots and not self.refs


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryChange:
    """The snapshots and refs that go, with the files that no other snapshot reaches."""

    plan: ExpiryPlan
    files: tuple[ListedFile, ...] = ()
    files_outside: int = 0
    """Files that only expiring snapshots reach and that lie outside the table's folders; they stay."""
    leftover: tuple[ListedFile, ...] = ()
    """Files that a killed pass noted for deletion and that nothing reaches."""


def plan_expiry(
    snapshots: Sequence[SnapshotFact],
    refs: Sequence[RefFact],
    current: int | None,
    bounds: Bounds,
    *,
    retention_ms: int,
    min_retained: int,
    now_ms: int,
) -> ExpiryPlan:
    """Newest first: the current one and the newest `min_retained` stay, of the rest those older than the retention
    go."""
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    gone_refs = tuple(sorted(ref.name for ref in refs if _ref_is_old(ref, by_id, now_ms)))
    living = [ref for ref in refs if ref.name not in gone_refs]
    kept = _kept_by_refs(living, by_id, retention_ms, min_retained, now_ms)
    newest = sorted(snapshots, key=lambda snapshot: (snapshot.sequence, snapshot.at_ms), reverse=True)
    kept |= {snapshot.id for snapshot in newest[:min_retained]}
    kept |= {snapshot.id for snapshot in snapshots if _is_young(snapshot, retention_ms, now_ms)}
    if current is not None:
        kept.add(current)
    due = [snapshot for snapshot in newest if snapshot.id not in kept]
    held = {snapshot.id: holder for snapshot in due if (holder := _holder(snapshot, bounds, by_id)) is not None}
    return ExpiryPlan(
        snapshots=tuple(snapshot.id for snapshot in due if snapshot.id not in held), refs=gone_refs, held=held
    )


def horizon(bounds: Bounds, by_id: Mapping[int, SnapshotFact]) -> SnapshotFact | None:
    """The oldest protected snapshot that the table still has."""
    return min(
        (by_id[id] for id in bounds.protected if id in by_id),
        key=lambda snapshot: (snapshot.sequence, snapshot.at_ms),
        default=None,
    )


def _holder(snapshot: SnapshotFact, bounds: Bounds, by_id: Mapping[int, SnapshotFact]) -> str | None:
    if snapshot.id in bounds.protected:
        return bounds.protected[snapshot.id]
    oldest = horizon(bounds, by_id)
    if oldest is not None and (snapshot.sequence, snapshot.at_ms) >= (oldest.sequence, oldest.at_ms):
        return f"newer than snapshot {oldest.id} ({bounds.protected[oldest.id]})"
    return None


def _is_young(snapshot: SnapshotFact, retention_ms: int, now_ms: int) -> bool:
    limit = max(retention_ms, STAGED_RETENTION_MS) if snapshot.is_staged else retention_ms
    return snapshot.at_ms > now_ms - limit


def _ref_is_old(ref: RefFact, by_id: Mapping[int, SnapshotFact], now_ms: int) -> bool:
    """Iceberg's rule: only a ref with an age limit of its own, never `main`. A ref without its snapshot is left for
    people to look at."""
    if ref.name == MAIN or ref.max_ref_age_ms is None or ref.snapshot_id not in by_id:
        return False
    return by_id[ref.snapshot_id].at_ms < now_ms - ref.max_ref_age_ms


def _kept_by_refs(
    refs: Sequence[RefFact], by_id: Mapping[int, SnapshotFact], retention_ms: int, min_retained: int, now_ms: int
) -> set[int]:
    kept = {ref.snapshot_id for ref in refs}
    for ref in refs:
        if not ref.is_branch:
            continue
        count = ref.min_snapshots if ref.min_snapshots is not None else (min_retained if ref.name == MAIN else 1)
        age = ref.max_snapshot_age_ms if ref.max_snapshot_age_ms is not None else retention_ms
        at: int | None = ref.snapshot_id
        walked: set[int] = set()
        while at is not None and at in by_id and at not in walked:
            snapshot = by_id[at]
            walked.add(at)
            if len(walked) > count and snapshot.at_ms <= now_ms - age:
                break
            kept.add(at)
            at = snapshot.parent
    return kept
