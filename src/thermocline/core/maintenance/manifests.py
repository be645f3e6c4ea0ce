"""Whether a table's manifests are worth rewriting: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFact:
    """A manifest of the current snapshot."""

    path: str
    spec_id: int
    is_data: bool
    size_bytes: int
    live_entries: int
    written_by_rewrite: bool = False
    """Made by a rewrite of manifests, not by a change of data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGroup:
    """The data manifests of one partition spec, to be written again together."""

    spec_id: int
    paths: tuple[str, ...]
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPlan:
    """The groups to rewrite, or the sentence that says why there is none."""

    groups: tuple[ManifestGroup, ...]
    skip: str | None
    details: tuple[str, ...] = ()


def plan_manifests(manifests: Sequence[ManifestFact], *, min_manifests: int, target_bytes: int) -> ManifestPlan:
    """Groups whose manifests would become fewer. What a rewrite made is as it should be, so a second pass finds nothing
    to do."""
    data = [manifest for manifest in manifests if manifest.is_data]
    if len(data) < min_manifests:
        return ManifestPlan(groups=(), skip=f"only {len(data)} data manifests, below threshold of {min_manifests}")
    if not any(manifest.live_entries for manifest in data):
        return ManifestPlan(groups=(), skip="no data entries to rewrite")
    groups, details = [], []
    for spec_id in sorted({manifest.spec_id for manifest in data}):
        mine = [manifest for manifest in data if manifest.spec_id == spec_id]
        expected = max(1, -(-sum(manifest.size_bytes for manifest in mine) // target_bytes))
        if len(mine) > expected and not all(manifest.written_by_rewrite for manifest in mine):
            paths = tuple(sorted(manifest.path for manifest in mine))
            groups.append(
                ManifestGroup(spec_id=spec_id, paths=paths, entries=sum(manifest.live_entries for manifest in mine))
            )
        else:
            details.append(f"spec {spec_id}: {len(mine)} manifests, no fewer would do")
    skip = None if groups else f"{len(data)} data manifests are as few as they can be at {target_bytes} bytes each"
    return ManifestPlan(groups=tuple(groups), skip=skip, details=tuple(details))
