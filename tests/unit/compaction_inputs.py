"""Data files, delete files and policies to plan compactions for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.maintenance.bins import CompactionPlan
from thermocline.core.maintenance.files import LakeSnapshot, PartitionField
from thermocline.core.policy.policy import Policy

MB = 1 << 20
NOW = datetime(2026, 6, 1, tzinfo=UTC)
MODAK = Policy()
SEAWEEDFS = Policy(
    preset="seaweedfs", rewrite_target_bytes=256 * MB, rewrite_min_input_files=5, min_input_scope="partition"
)
ARTEMIS = Policy(
    preset="artemis", small_file_threshold_bytes=32 * MB, rewrite_min_input_files=2, min_input_scope="partition"
)
REGION = {0: (PartitionField(name="region", source="region", transform="identity"),)}


def data_files(
    *sizes_mb: float, partition: tuple[object, ...] = (), spec_id: int = 0, start: int = 0, **more: Any
) -> list[LiveDataFile]:
    return [
        LiveDataFile(
            path=f"/lake/{spec_id}/{'-'.join(map(str, partition))}/{start + at}.parquet",
            size_bytes=int(size * MB),
            record_count=1000,
            sequence_number=1,
            partition=partition,
            spec_id=spec_id,
            order=start + at,
            **more,
        )
        for at, size in enumerate(sizes_mb)
    ]


def lake_table(data: Sequence[LiveDataFile], deletes: Sequence[LiveDeleteFile] = (), **more: Any) -> LakeSnapshot:
    groups = {file.group for file in data}
    specs = more.pop("specs", {0: ()} if all(not group[1] for group in groups) else REGION)
    texts = {
        group: {field.name: str(value) for field, value in zip(specs[group[0]], group[1], strict=True)}
        for group in groups
    }
    return LakeSnapshot(
        snapshot_id=1,
        sequence_number=9,
        format_version=2,
        data=tuple(data),
        deletes=tuple(deletes),
        specs=specs,
        partition_texts=more.pop("texts", texts),
        **more,
    )


def bin_sizes(plan: CompactionPlan) -> list[list[int]]:
    return sorted(sorted((file.size_bytes // MB for file in made.files), reverse=True) for made in plan.bins)


def delete_file(kind: Any, sequence: int, **more: Any) -> LiveDeleteFile:
    return LiveDeleteFile(
        path=f"/lake/d{sequence}-{len(more)}.parquet",
        kind=kind,
        size_bytes=100,
        record_count=10,
        sequence_number=sequence,
        **more,
    )
