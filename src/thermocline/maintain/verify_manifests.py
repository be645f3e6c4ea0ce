"""What the lake's manifests say held against its files, and put right: `verify` and `verify --repair`.

Readers skip files by what manifests say of them, so an entry that is wrong loses rows that are there. Repair writes the
manifests of wrong entries again, on exactly the head that was looked at, as an op of the table: journaled, published,
and decided by whoever comes next when this process dies. Data files are not touched. Older snapshots keep the manifests
they have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from thermocline.catalog.pauses import read_paused_since
from thermocline.catalog.tables import insert_event
from thermocline.core.manifest_entry import EntryProblem, FileEntry
from thermocline.core.metrics_modes import current_schema, plan_metrics_modes
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.core.verification import ManifestReport
from thermocline.errors import LostRace, Paused
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table
from thermocline.lake.commit.repair_manifests import repair_manifests
from thermocline.lake.read.manifest_entries import read_file_entries
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.commit import commit_and_publish
from thermocline.maintain.context import PassContext
from thermocline.maintain.targets import find_target
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.pg import connect
from thermocline.runtime.retries import back_off, retry_on
from thermocline.runtime.settings import Settings
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.kernels.verify_entry import EntryCheck, EntryCheckTask, check_entries

_FILES_PER_TASK = 64
_ON_SPARK_BYTES = 4 << 30
"""Tables from this size on are checked by Spark tasks, where a session is at hand."""
_ATTEMPTS = 5
_KIND = "repair_manifests"


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
    """Hold every data file of a snapshot against its manifest entry."""
    if snapshot_id is None:
        return CheckedManifests(report=ManifestReport(table=table, snapshot=None, files=0))
    lake = read_lake_table(metadata_location)
    told = read_metadata_file(metadata_location)
    entries = list(read_file_entries(lake, snapshot_id))
    parquet = [entry for entry in entries if entry.format == "parquet"]
    others = len(entries) - len(parquet)
    checks = _check(parquet, told, spark)
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
    entries: Sequence[FileEntry], told: Mapping[str, Any], spark: Callable[[], SparkSession] | None
) -> list[EntryCheck]:
    tasks = list(_tasks(entries, told))
    if spark is not None and sum(entry.size_bytes for entry in entries) >= _ON_SPARK_BYTES:
        return [check for found in run_tasks(spark(), tasks, check_entries, "Checking manifests") for check in found]
    return [check for task in tasks for check in check_entries(task)]


def _tasks(entries: Sequence[FileEntry], told: Mapping[str, Any]) -> Iterator[EntryCheckTask]:
    schema, modes = current_schema(told), plan_metrics_modes(told)
    for first in range(0, len(entries), _FILES_PER_TASK):
        part = tuple(entries[first : first + _FILES_PER_TASK])
        yield EntryCheckTask(number=first // _FILES_PER_TASK, entries=part, schema=schema, modes=modes)


def verify_lake_table(dsn: str, name: TableName) -> ManifestReport:
    """The manifests of a lake table under maintenance, or of a registered table's lake, at the lake's head."""
    with connect(dsn, autocommit=True, application_name="thermocline verify") as conn:
        seen = find_target(conn, name)
    return check_manifests(str(name), seen.metadata_location, seen.snapshot).report


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRepair:
    """What was put right, and what could not be."""

    table: str
    files: int
    snapshot: int | None
    left: tuple[EntryProblem, ...]

    @property
    def sentence(self) -> str:
        left = f"; {self.left[0]}, which no repair of manifests can help" if self.left else ""
        if not self.files:
            return f"{self.table}: no manifest entry was repaired{left}."
        return (
            f"{self.table}: the manifest entries of {self.files:,} files were repaired in snapshot "
            f"{self.snapshot}{left}."
        )


def repair_table_manifests(
    dsn: str, name: TableName, *, settings: Settings, spark: Callable[[], SparkSession], worker: str = "local"
) -> ManifestRepair:
    """Put right what the manifests of the lake's head say of files; looked for again whenever the table moved
    meanwhile."""
    with connect(dsn, autocommit=True, application_name="thermocline repair") as conn:
        seen = find_target(conn, name)
        if seen.owner.table_id is not None and (since := read_paused_since(conn, seen.owner.table_id)) is not None:
            raise Paused(f"{seen.label} is paused since {since:%Y-%m-%d %H:%M:%S}; nothing of it moves.")
        check_lakes_match_journal(conn)
        context = PassContext(
            conn=conn,
            dsn=dsn,
            spark=spark,
            settings=settings,
            target=seen.target,
            policy=Policy(preset="modak"),
            now=datetime.now(UTC),
            worker=worker,
        )
        for attempt in retry_on(LostRace, attempts=_ATTEMPTS, wait=back_off):
            with attempt:
                done = _repair(context, str(name))
        if done.files:
            insert_event(conn, seen.owner.table_id, "repair", done.sentence)
    return done


def _repair(context: PassContext, name: str) -> ManifestRepair:
    looked_at = load_table(context.spark(), context.target.name)
    found = check_manifests(name, looked_at.metadata_location, looked_at.snapshot_id, context.spark)
    left = tuple(problem for check in found.checks if check.right is None for problem in check.problems)
    by_manifest = defaultdict(list)
    for check in found.checks:
        if check.right is not None:
            by_manifest[found.entries[check.right.path][0]].append(check.right)
    files = sum(map(len, by_manifest.values()))
    if not files:
        return ManifestRepair(table=name, files=0, snapshot=None, left=left)

    def commit(head: LakeHead, stamp: OpStamp) -> int:
        if head.metadata_location != looked_at.metadata_location:
            raise LostRace(f"The lake table of {head.name} moved since it was looked at; nothing was committed.")
        return repair_manifests(head, by_manifest, {path: added for path, (_, added) in found.entries.items()}, stamp)

    message = f"repaired the manifest entries of {files} files"
    counters = {"files": files, "manifests": len(by_manifest)}
    snapshot = commit_and_publish(context, _KIND, commit, counters=counters, message=message)
    return ManifestRepair(table=name, files=files, snapshot=snapshot, left=left)
