"""The policy in force for one pass: one value per key, whatever layer it came from.

A key is declared by its field: default (that of preset `modak`), spellings, type and range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from thermocline.core.policy.key_fields import choice, count, duration, flag, hours, names, rate, size, text
from thermocline.core.policy.key_types import HOUR_MS
from thermocline.core.policy.quiet_windows import parse_quiet_windows

Strategy = Literal["binpack", "sort", "zorder", "hilbert", "auto"]
Scope = Literal["table", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a pass goes by. Sizes in bytes, ages in milliseconds; a zero limit is no limit."""

    preset: Literal["modak", "seaweedfs", "artemis"] = "modak"
    maintenance_enabled: bool = flag(True, shared=True)
    operations: tuple[str, ...] = names((), shared=True)
    """The operations a pass may run; empty: all that are enabled."""

    rewrite_enabled: bool = flag(True)
    delete_compaction_enabled: bool = flag(True)
    manifest_rewrite_enabled: bool = flag(True)
    snapshot_expiry_enabled: bool = flag(True)
    orphan_sweep_enabled: bool = flag(False)

    rewrite_strategy: Strategy = choice("binpack", Strategy)
    sort_order: str = text("")
    """`column [asc|desc] [nulls-first|nulls-last], …`; empty: the table's own."""
    zorder_columns: tuple[str, ...] = names(())
    sort_max_input_bytes: int = size(0, "sort_max_input_mb", lowest=0, shown_in_mb=True)
    rewrite_target_bytes: int = size(134_217_728, "target_file_size_mb")
    small_file_threshold_bytes: int = size(0, "small_file_threshold_mb", lowest=0)
    """Files below it are candidates; 0: the target."""
    too_large_bytes: int = size(0, "too_large_mb", lowest=0)
    rewrite_min_input_files: int = count(8, "min_input_files", lowest=2)
    min_input_scope: Scope = choice("table", Scope)
    splice_min_row_group_bytes: int = size(8_388_608, "splice_min_row_group_mb", lowest=0)
    compression_level: int = count(1, highest=22)
    where: str = text("")

    apply_deletes: bool = flag(True)
    delete_compaction_min_deletes: int = count(1)
    delete_ratio_threshold: float = rate(0.3, highest=1)
    delete_target_bytes: int = size(67_108_864, "delete_target_file_size_mb", shown_in_mb=True)
    delete_min_input_files: int = count(2, lowest=2)
    delete_max_group_bytes: int = size(268_435_456, "delete_max_file_group_size_mb", shown_in_mb=True)
    delete_max_output_files: int = count(8)

    manifest_rewrite_min_manifests: int = count(100, "min_manifests_to_rewrite", others_lowest=2)
    manifest_target_bytes: int = size(8_388_608, "manifest_target_mb")
    manifest_rewrite_interval_ms: int = hours(0, "manifest_rewrite_interval_hours", lowest=0)

    snapshot_retention_ms: int = hours(24 * HOUR_MS, "snapshot_retention_hours")
    snapshot_min_retained: int = count(5, "max_snapshots_to_keep")
    orphan_grace_ms: int = hours(72 * HOUR_MS, "orphan_grace_hours", "orphan_older_than_hours")
    orphan_quarantine_ms: int = hours(0, "orphan_quarantine_hours", lowest=0)

    max_commit_retries: int = count(5, highest=20)
    rebase: bool = flag(True)
    """False: a head that moved since planning aborts the operation (`seaweedfs`)."""
    partial_progress_commits: int = count(10)

    sealed_after_ms: int = duration(-1, "sealed_after")
    """Below zero: partitions of any age; else only those whose window ended this long ago."""
    max_parallel_tasks: int = count(4, highest=10_000, shared=True)
    bandwidth_mb_per_s: float = rate(0, shared=True)
    bandwidth_share: float = rate(1.0, lowest=0.001, highest=1, shared=True)
    max_read_mb_per_s: float = rate(0, shared=True)
    max_write_mb_per_s: float = rate(0, shared=True)
    max_iops: float = rate(0, shared=True)
    pass_interval_ms: int = duration(-1, "pass_interval", shared=True)
    """From the end of a pass that found work to the next one, ten times as long after one that found none; below zero:
    the worker's own."""
    quiet_windows: str = text("", check=parse_quiet_windows, shared=True)
    latency_threshold_ms: float = rate(0, shared=True)
    latency_query: str = text("", shared=True)
    op_log_retention_days: int = count(90, highest=36_500, shared=True)
    table_properties_override: bool = flag(True, shared=True)

    own: Mapping[str, bool | int | float | str | tuple[str, ...]] = field(default_factory=dict)
    """Keys of another format than Iceberg; then Iceberg's stand at their defaults and nobody reads them."""
