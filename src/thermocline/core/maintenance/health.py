"""How well a lake table is: counts, debt, warnings, trend. Pure: facts in, words and figures out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from thermocline.core.policy.operations import is_enabled
from thermocline.core.policy.policy import Policy

MB = 1_048_576
DELETE_DEBT_RATIO, DELETE_DEBT_FILES = 0.3, 8
MANIFEST_SPRAWL = 100
SIZE_EDGES_BYTES = (MB, 4 * MB, 16 * MB, 32 * MB, 64 * MB, 128 * MB, 256 * MB, 512 * MB, 1024 * MB)
NOT_KEEPING_UP = "external maintenance is not keeping up"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """What one version of a table says of itself. `ends` are the ranges of the column whose clustering counts, one per
    file."""

    sizes_bytes: tuple[int, ...]
    records: int
    delete_files: int
    deleted_records: int
    snapshots: int
    manifests: int
    oldest_snapshot_ms: int | None
    newest_commit_ms: int | None
    last_compaction_ms: int | None
    depth: float | None
    depth_column: str | None
    foreign_commits: tuple[str, ...] = ()
    """Commits that were not ours and added or removed rows, each as words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Small files between two looks."""

    created: int
    removed: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeHealth:
    """The figures of `thermocline.lake_stats`."""

    files: int
    delete_files: int
    bytes: int
    records: int
    snapshots: int
    manifests: int
    delete_ratio: float
    small_files: int
    small_bytes: int
    too_large_files: int
    oldest_snapshot: str | None
    orphan_estimate: int
    debt_score: float
    gain_per_mb: float
    size_histogram: tuple[int, ...]
    """Files per class of size; the classes end at SIZE_EDGES_BYTES, the last is open."""
    clustering_depth: float | None
    clustering_column: str | None
    compaction_lag_seconds: int | None
    small_files_created: int | None = None
    small_files_removed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """Something a person should know of; `key` says what it is about, so that it is shown once."""

    key: str
    sentence: str


def small_limit_bytes(policy: Policy) -> int:
    return policy.small_file_threshold_bytes or policy.rewrite_target_bytes


def measure(facts: HealthFacts, policy: Policy, *, orphan_estimate: int = 0, trend: Trend | None = None) -> LakeHealth:
    """Figures of one version under a policy, which says what is small and what is too large."""
    limit, target = small_limit_bytes(policy), max(policy.rewrite_target_bytes, 1)
    small = [size for size in facts.sizes_bytes if size < limit]
    saved = max(len(small) - -(-sum(small) // target), 0)
    overlap = max((facts.depth or 1) - 1, 0) * len(facts.sizes_bytes) if policy.rewrite_strategy != "binpack" else 0
    score = saved + facts.delete_files + overlap
    return LakeHealth(
        files=len(facts.sizes_bytes),
        delete_files=facts.delete_files,
        bytes=sum(facts.sizes_bytes),
        records=facts.records,
        snapshots=facts.snapshots,
        manifests=facts.manifests,
        delete_ratio=round(facts.delete_files / max(len(facts.sizes_bytes), 1), 4),
        small_files=len(small),
        small_bytes=sum(small),
        too_large_files=sum(
            1 for size in facts.sizes_bytes if policy.too_large_bytes and size > policy.too_large_bytes
        ),
        oldest_snapshot=_moment(facts.oldest_snapshot_ms),
        orphan_estimate=orphan_estimate,
        debt_score=round(score, 2),
        gain_per_mb=round(score / max(sum(small) / MB, 1), 4),
        size_histogram=histogram(facts.sizes_bytes),
        clustering_depth=None if facts.depth is None else round(facts.depth, 3),
        clustering_column=facts.depth_column,
        compaction_lag_seconds=_lag(facts, len(small)),
        small_files_created=None if trend is None else trend.created,
        small_files_removed=None if trend is None else trend.removed,
    )


def histogram(sizes_bytes: Sequence[int]) -> tuple[int, ...]:
    counts = [0] * (len(SIZE_EDGES_BYTES) + 1)
    for size in sizes_bytes:
        counts[bisect_left(SIZE_EDGES_BYTES, size + 1)] += 1
    return tuple(counts)


def _moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def _lag(facts: HealthFacts, small: int) -> int | None:
    """How far the newest commit is ahead of the last compaction; nothing while no file is small or nothing was ever
    committed."""
    if facts.newest_commit_ms is None:
        return None
    since = facts.last_compaction_ms if facts.last_compaction_ms is not None else facts.oldest_snapshot_ms
    return max((facts.newest_commit_ms - (since or facts.newest_commit_ms)) // 1000, 0) if small > 1 else 0


def find_warnings(health: LakeHealth, facts: HealthFacts) -> tuple[Warning, ...]:
    """Delete debt, manifest sprawl, files that are too large, commits of others."""
    found = []
    if health.delete_ratio >= DELETE_DEBT_RATIO and health.files >= DELETE_DEBT_FILES:
        debt = (
            f"delete-file debt: {health.delete_files} delete files on {health.files} data files "
            f"({health.delete_ratio:.0%})"
        )
        found.append(Warning(key="delete_debt", sentence=debt))
    if health.manifests >= MANIFEST_SPRAWL:
        found.append(Warning(key="manifest_sprawl", sentence=f"manifest sprawl: {health.manifests} manifests"))
    if health.too_large_files:
        found.append(Warning(key="too_large", sentence=f"{health.too_large_files} data files are too large"))
    found += [
        Warning(key=f"foreign {commit}", sentence=f"others committed to this table: {commit}")
        for commit in facts.foreign_commits
    ]
    return tuple(found)


_CURES = {"delete_debt": "compact", "manifest_sprawl": "rewrite_manifests"}


def render_warnings(
    warnings: Mapping[str, Mapping[str, Any]], policy: Policy, now: datetime, persistent_after: timedelta
) -> list[str]:
    """Sentences as they are shown: one that persists where nobody of ours works on it is laid to who does."""
    sentences = []
    for key, kept in warnings.items():
        operation = _CURES.get(key)
        ours = policy.maintenance_enabled and (operation is None or is_enabled(policy, operation))
        persists = now - datetime.fromisoformat(str(kept["since"])) >= persistent_after
        sentences.append(
            f"{NOT_KEEPING_UP}: {kept['sentence']}" if persists and operation and not ours else str(kept["sentence"])
        )
    return sentences
