"""Iceberg as a format: its operations, its keys, what is counted."""

from __future__ import annotations

from dataclasses import fields

from thermocline.core.maintenance.record import ICEBERG_TOTALS
from thermocline.core.policy.formats import Format, added_formats
from thermocline.core.policy.keys import KEYS, PRESET_VALUES, SHARED
from thermocline.core.policy.operations import ICEBERG_OPERATIONS, ICEBERG_ORDERS
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import FormatUnknown

ICEBERG = Format(
    name="iceberg",
    operations=ICEBERG_OPERATIONS,
    orders=ICEBERG_ORDERS,
    keys={field: spellings for field, spellings in KEYS.items() if field not in SHARED},
    defaults={field.name: getattr(Policy(), field.name) for field in fields(Policy) if field.name in KEYS},
    preset_values={str(preset): values for preset, values in PRESET_VALUES.items()},
    totals=ICEBERG_TOTALS,
    health={
        "files": "Data files.",
        "delete_files": "Delete files.",
        "bytes": "Bytes in data files.",
        "records": "Rows in data files, deleted ones counted.",
        "snapshots": "Snapshots in the metadata.",
        "manifests": "Manifests of the current snapshot.",
        "delete_ratio": "Delete files for each data file.",
        "small_files": "Data files below the policy's limit.",
        "small_bytes": "Bytes in small data files.",
        "too_large_files": "Data files above the policy's limit.",
        "orphan_estimate": "Files that the journal knows to be waste.",
        "debt_score": "Files and deletes that a pass would save.",
        "compaction_lag_seconds": "How far the newest commit is ahead of the last compaction.",
        "clustering_depth": "Files that a look-up of one key opens.",
    },
    properties={
        "write.target-file-size-bytes": "rewrite_target_bytes",
        "write.delete.target-file-size-bytes": "delete_target_bytes",
        "history.expire.max-snapshot-age-ms": "snapshot_retention_ms",
        "history.expire.min-snapshots-to-keep": "snapshot_min_retained",
        "commit.manifest.target-size-bytes": "manifest_target_bytes",
    },
)


def all_formats() -> tuple[Format, ...]:
    return (ICEBERG, *added_formats())


def format_named(name: str) -> Format:
    found = next((format for format in all_formats() if format.name == name), None)
    if found is None:
        known = ", ".join(format.name for format in all_formats())
        raise FormatUnknown(
            f"unknown format {name!r}", hint=f"There are {known}; another is added by installing its package."
        )
    return found
