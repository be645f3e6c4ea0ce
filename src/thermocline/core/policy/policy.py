"""The policy in force for one pass: one value per key, whatever layer it came from. Defaults are those of preset
`modak`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Strategy = Literal["binpack", "sort", "zorder", "hilbert", "auto"]
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a pass goes by. Sizes in bytes, ages in milliseconds; a zero limit is no limit."""

    preset: Literal["modak", "seaweedfs", "artemis"] = "modak"
    maintenance_enabled: bool = True
    operations: tuple[str, ...] = ()
    """The operations a pass may run; empty: all that are enabled."""

    rewrite_enabled: bool = True
    delete_compaction_enabled: bool = True
    manifest_rewrite_enabled: bool = True
    snapshot_expiry_enabled: bool = True
    orphan_sweep_enabled: bool = False

    rewrite_strategy: Strategy = "binpack"
    sort_order: str = ""
    """`column [asc|desc] [nulls-first|nulls-last], …`; empty: the table's own."""
    zorder_columns: tuple[str, ...] = ()
    sort_max_input_bytes: int = 0
    rewrite_target_bytes: int = 134_217_728
    small_file_threshold_bytes: int = 0
    """Files below it are candidates; 0: the target."""
    too_large_bytes: int = 0
    rewrite_min_input_files: int = 8
    min_input_scope: Literal["table", "partition"] = "table"
    splice_min_row_group_bytes: int = 8_388_608
    compression_level: int = 1
    where: str = ""

    apply_deletes: bool = True
    delete_compaction_min_deletes: int = 1
    delete_ratio_threshold: float = 0.3
    delete_target_bytes: int = 67_108_864
    delete_min_input_files: int = 2
    delete_max_group_bytes: int = 268_435_456
    delete_max_output_files: int = 8

    manifest_rewrite_min_manifests: int = 100
    manifest_target_bytes: int = 8_388_608
    manifest_rewrite_interval_ms: int = 0

    snapshot_retention_ms: int = 24 * HOUR_MS
    snapshot_min_retained: int = 5
    orphan_grace_ms: int = 72 * HOUR_MS
    orphan_quarantine_ms: int = 0

    max_commit_retries: int = 5
    rebase: bool = True
    """False: a head that moved since planning aborts the operation (`seaweedfs`)."""
    partial_progress_commits: int = 10

    sealed_after_ms: int = -1
    """Below zero: partitions of any age; else only those whose window ended this long ago."""
    max_parallel_tasks: int = 4
    bandwidth_mb_per_s: float = 0
    bandwidth_share: float = 1.0
    max_read_mb_per_s: float = 0
    max_write_mb_per_s: float = 0
    max_iops: float = 0
    pass_interval_ms: int = -1
    """From the end of a pass that found work to the next one, ten times as long after one that found none; below zero:
    the worker's own."""
    quiet_windows: str = ""
    latency_threshold_ms: float = 0
    latency_query: str = ""
    op_log_retention_days: int = 90
    table_properties_override: bool = True

    own: Mapping[str, bool | int | float | str | tuple[str, ...]] = field(default_factory=dict)
    """Keys of another format than Iceberg; then Iceberg's stand at their defaults and nobody reads them."""
