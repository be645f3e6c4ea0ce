"""Rewrite wrong manifest entries: `verify --repair`.

Manifests with wrong entries are rewritten on exactly the head that was checked, as an op of the table: journaled,
published, and resolved by the next writer when this process dies. Data files are not touched. Older snapshots
keep their manifests.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from thermocline.catalog.pauses import read_paused_since
from thermocline.catalog.tables import insert_event
from thermocline.core.manifest_entry import EntryProblem
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.errors import LostRace, Paused
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table
from thermocline.lake.commit.repair_manifests import repair_manifests
from thermocline.maintain.commits.maintenance_op import run_maintenance_op
from thermocline.maintain.context import PassContext
from thermocline.maintain.targets import find_target
from thermocline.ops.runner import WrittenOp
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.ops.verify.check_manifests import check_manifests
from thermocline.runtime.pg import connect
from thermocline.runtime.retries import back_off
from thermocline.runtime.settings import Settings

_ATTEMPTS = 5
_KIND = "repair_manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRepair:
    """The number of repaired entries, and the problems that rewriting manifests cannot solve."""

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
    """Rewrite the wrong manifest entries of the lake's head; the table is checked again when its head changed
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
        for attempt in range(_ATTEMPTS):
            try:
                done = _repair(context, str(name))
                break
            except LostRace:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(back_off(attempt))
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

    def write(head: LakeHead, _: OpStamp) -> WrittenOp[None]:
        if head.metadata_location != looked_at.metadata_location:
            raise LostRace(f"The lake table of {head.name} moved since it was looked at; nothing was committed.")
        message = f"repaired the manifest entries of {files} files"
        counters = {"files": files, "manifests": len(by_manifest)}
        return WrittenOp(result=None, message=message, commit=commit, counters=counters)

    def commit(head: LakeHead, stamp: OpStamp) -> int:
        return repair_manifests(head, by_manifest, {path: added for path, (_, added) in found.entries.items()}, stamp)

    done = run_maintenance_op(context, _KIND, write)
    return ManifestRepair(table=name, files=files, snapshot=done.snapshot if done is not None else None, left=left)
