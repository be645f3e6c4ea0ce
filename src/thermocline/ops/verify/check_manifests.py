"""What the lake's manifests say of its files, compared with the files.

Readers skip files by what manifests say of them, so a wrong entry loses rows that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from thermocline.core.manifest_entry import FileEntry
from thermocline.core.metrics_modes import current_schema, plan_metrics_modes
from thermocline.core.verification import ManifestReport
from thermocline.lake.read.manifest_entries import read_file_entries
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.kernels.verify_entry import EntryCheck, EntryCheckTask, check_entries

_FILES_PER_TASK = 64
_ON_SPARK_BYTES = 4 << 30
"""Tables from this size on are checked by Spark tasks, where a session is at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedManifests:
    """A report, and what a repair needs beyond it: the right entries, and the manifest and the snapshot of each
    file."""

    report: ManifestReport
    checks: tuple[EntryCheck, ...] = ()
    entries: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def check_manifests(
    table: str, metadata_location: str, snapshot_id: int | None, spark: Callable[[], SparkSession] | None = None
) -> CheckedManifests:
    """Compare every data file of a snapshot with its manifest entry."""
    if snapshot_id is None:
        return CheckedManifests(report=ManifestReport(table=table, snapshot=None, files=0))
    lake = read_lake_table(metadata_location)
    metadata = read_metadata_file(metadata_location)
    entries = list(read_file_entries(lake, snapshot_id))
    parquet = [entry for entry in entries if entry.format == "parquet"]
    others = len(entries) - len(parquet)
    checks = _check(parquet, metadata, spark)
    report = ManifestReport(
        table=table,
        snapshot=snapshot_id,
        files=len(parquet),
        problems=tuple(problem for check in checks for problem in check.problems),
        notes=(f"{others} files of other formats than Parquet were not checked",) if others else (),
    )
    return CheckedManifests(
        report=report,
        checks=tuple(checks),
        entries={entry.path: (entry.manifest, entry.snapshot_id) for entry in entries},
    )


def _check(
    entries: Sequence[FileEntry], metadata: Mapping[str, Any], spark: Callable[[], SparkSession] | None
) -> list[EntryCheck]:
    tasks = list(_tasks(entries, metadata))
    if spark is not None and sum(entry.size_bytes for entry in entries) >= _ON_SPARK_BYTES:
        return [check for found in run_tasks(spark(), tasks, check_entries, "Checking manifests") for check in found]
    return [check for task in tasks for check in check_entries(task)]


def _tasks(entries: Sequence[FileEntry], metadata: Mapping[str, Any]) -> Iterator[EntryCheckTask]:
    schema, modes = current_schema(metadata), plan_metrics_modes(metadata)
    for first in range(0, len(entries), _FILES_PER_TASK):
        part = tuple(entries[first : first + _FILES_PER_TASK])
        yield EntryCheckTask(number=first // _FILES_PER_TASK, entries=part, schema=schema, modes=modes)
