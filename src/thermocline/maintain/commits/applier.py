"""The only way an engine changes a table: each request is compared with the plan and the bounds, then journaled,
committed and published, or refused.

Invariant: what is not in the plan is neither committed nor deleted, whichever engine asks for it. Bounds are read again
at the commit, so that a pin or a ref that came after the plan holds too.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from thermocline.catalog import safety as journal
from thermocline.catalog.maintenance import lake_ops
from thermocline.core.maintenance.expiry import ExpiryChange
from thermocline.core.maintenance.manifests import ManifestGroup
from thermocline.core.maintenance.orphans import ListedFile, MetadataPlan, SweepPlan
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors import CommitFailed, EngineUnsuitable, LostRace
from thermocline.lake.actions.iceberg_actions import ActionResult
from thermocline.lake.actions.rewrite_manifests import RewrittenManifests, rewrite_manifests
from thermocline.lake.actions.staged_commit import (
    PendingSnapshot,
    StagedTable,
    commit_staged,
    read_pending,
    stage_table,
)
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table
from thermocline.lake.commit.remove_snapshots import remove_snapshots
from thermocline.lake.commit.rewrite_files import Rewrite, rewrite_files
from thermocline.lake.files.delete_files import DeletionResult, delete_files
from thermocline.lake.files.deletion_check import Deletable
from thermocline.lake.files.path_set import PathSet
from thermocline.lake.read.added_files import read_added_files
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.lake.read.table_files import TableFiles
from thermocline.lake.read.table_metadata import has_missing
from thermocline.maintain.commits.maintenance_op import run_maintenance_op
from thermocline.maintain.context import PassContext
from thermocline.maintain.operations.compaction_tasks import read_seen
from thermocline.maintain.plans.neighbour_tables import check_is_one_table
from thermocline.maintain.plans.plan_checks import (
    check_expiry,
    check_kept,
    check_manifests,
    check_rewrite,
    check_snapshot_counts,
    refuse,
)
from thermocline.maintain.plans.planning import Observed, Planned
from thermocline.maintain.plans.safety import check_may_delete, owner_of, read_bounds, read_version_of
from thermocline.ops.runner import WrittenOp
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.file_io import flush_recent

_FILES_AT_ONCE = 1000
_KEPT_METADATA = (
    "location",
    "table-uuid",
    "format-version",
    "current-schema-id",
    "schemas",
    "default-spec-id",
    "partition-specs",
    "sort-orders",
    "properties",
)
"""What a rewrite leaves as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applier:
    """Commits and deletes for one plan."""

    context: PassContext
    planned: Planned
    make_plan: Callable[[Observed], Planned]

    @property
    def plan(self) -> MaintenancePlan:
        return self.planned.plan

    @property
    def observed(self) -> Observed:
        return self.planned.observed

    def plan_again(self) -> Applier:
        """Replace the whole plan by a new one, because the table changed since it was made."""
        self.context.report_progress(f"{self.plan.operation}: the table changed since it was planned; planned again")
        planned = self.make_plan(self.observed)
        self.context.note_bounds(planned.plan.bounds)
        return replace(self, planned=planned)

    def commit_rewrite(self, base: LakeHead, rewrite: Rewrite, *, counters: Mapping[str, object], message: str) -> int:
        """Replace data and delete files in one commit on exactly the version `base`; the new snapshot."""
        files = self.observed.files or TableFiles()
        new = [file.path for file in rewrite.added]
        new += [*(file.path for file in rewrite.new_deletes), *(copy.path for copy in rewrite.carried)]
        paths = list(dict.fromkeys(new))

        def write(head: LakeHead, stamp: OpStamp) -> WrittenOp[None]:
            # Comparing snapshots is not enough: a commit on a branch or a schema change leaves the current snapshot.
            if head.metadata_location != base.metadata_location:
                raise LostRace(f"The lake table of {head.name} moved since it was looked at; nothing was committed.")
            check_rewrite(self.plan, read_seen(files, head), rewrite)
            self._assign_to_op(stamp, paths)
            return WrittenOp(result=None, message=message, commit=commit, paths=paths, counters=counters)

        def commit(head: LakeHead, stamp: OpStamp) -> int:
            try:
                return rewrite_files(head, rewrite, stamp)
            except (LostRace, CommitFailed):
                self._return_to_pass(stamp, paths)
                raise

        done = run_maintenance_op(self.context, self.plan.operation, write)
        assert done is not None
        assert done.snapshot is not None
        return done.snapshot

    def _assign_to_op(self, stamp: OpStamp, paths: Sequence[str]) -> None:
        """Assign staged files of the pass to the op; refuse a file that the pass did not register."""
        taken = lake_ops.take_over(self.context.conn, uuid.UUID(stamp.op_id), self.context.pass_id, paths)
        if taken != len(paths):
            self._return_to_pass(stamp, paths)
            raise refuse(self.plan, f"adds {len(paths) - taken} file(s) that it did not register")

    def _return_to_pass(self, stamp: OpStamp, paths: Sequence[str]) -> None:
        """Assign the files of a failed commit to the pass again: the next attempt uses them."""
        if self.context.pass_id is not None:
            lake_ops.take_over(self.context.conn, self.context.pass_id, uuid.UUID(stamp.op_id), paths)

    def rewrite_manifests(self, group: ManifestGroup, target_bytes: int) -> RewrittenManifests:
        """Rewrite the manifests of a planned group; `LostRace` when one of them is no longer in the table."""

        def write(head: LakeHead, stamp: OpStamp) -> WrittenOp[RewrittenManifests]:
            check_manifests(self.plan, group.spec_id, group.paths)
            if not set(group.paths) <= {fact.path for fact in read_manifest_facts(head.metadata_location)}:
                raise LostRace(f"The manifests of {head.name} changed since they were planned.")
            staged = stage_table(head)
            result = rewrite_manifests(staged, group.spec_id, group.paths, stamp, target_bytes)
            return self._write_staged(
                staged, result, {"manifests": len(group.paths)}, f"rewrote manifests of spec {group.spec_id}"
            )

        done = run_maintenance_op(self.context, self.plan.operation, write)
        assert done is not None
        return done.result

    def run_procedure(self, run: Callable[[StagedTable, OpStamp], ActionResult]) -> ActionResult:
        """Run one of Iceberg's own rewrites on a staged table; check its result, then commit it."""
        nothing: list[ActionResult] = []

        def write(head: LakeHead, stamp: OpStamp) -> WrittenOp[ActionResult] | None:
            # Checked on the head that is rewritten, not on the planned one: the schema may have changed in between.
            check_procedures_fit(head)
            staged = stage_table(head)
            result = run(staged, stamp)
            if not read_pending(staged)[1]:
                nothing.append(result)
                return None
            counters = {"files_rewritten": result.before, "files_written": result.after}
            return self._write_staged(staged, result, counters, f"{self.plan.operation} by Iceberg's procedure")

        done = run_maintenance_op(self.context, self.plan.operation, write)
        return done.result if done is not None else nothing[0]

    def _write_staged(
        self, staged: StagedTable, result: Any, counters: Mapping[str, object], message: str
    ) -> WrittenOp[Any]:
        metadata, pending = read_pending(staged)
        self._check_pending(staged.head, metadata, pending)

        def commit(head: LakeHead, stamp: OpStamp) -> int:
            snapshot = commit_staged(staged, pending, stamp.op_id)
            # Iceberg's own writers do not flush data files.
            after = load_table(head.spark, head.name)
            for staged_snapshot in pending:
                flush_recent(read_added_files(after, staged_snapshot.id), time.time())
            return snapshot

        return WrittenOp(result=result, message=message, commit=commit, counters=counters)

    def _check_pending(self, head: LakeHead, metadata: Mapping[str, Any], pending: Sequence[PendingSnapshot]) -> None:
        plan, before = self.plan, head.metadata
        check_kept(plan, "snapshot", _snapshot_ids(before), _snapshot_ids(metadata))
        kept_refs = {name: ref for name, ref in before.get("refs", {}).items() if name != "main"}
        if any(metadata.get("refs", {}).get(name) != ref for name, ref in kept_refs.items()):
            raise refuse(plan, "changes a branch or tag")
        if changed := next((key for key in _KEPT_METADATA if before.get(key) != metadata.get(key)), None):
            raise refuse(plan, f"changes the table's {changed}")
        summary: Mapping[str, str] = next(
            (
                snapshot.get("summary", {})
                for snapshot in before.get("snapshots", ())
                if snapshot["snapshot-id"] == head.snapshot_id
            ),
            {},
        )
        for snapshot in pending:
            check_snapshot_counts(plan, summary, snapshot.summary)
            summary = snapshot.summary

    def expire_snapshots(
        self, head: LakeHead, snapshots: Sequence[int], refs: Sequence[str], files: Sequence[Deletable]
    ) -> None:
        """Remove snapshots and refs from the table, on exactly this version and under the writer's lock, with a note of
        the files that are deleted afterwards."""
        context, owner = self.context, owner_of(self.context)
        version = read_version_of(head)
        # Another program's commit to a second name of the table changes neither the head nor the plan.
        check_may_delete(context, version)
        check_is_one_table(context, version)
        bounds = read_bounds(context, version)
        check_expiry(self.plan, head.snapshot_id, version.refs, expiring=snapshots, removed_refs=refs)
        if needed := next((snapshot for snapshot in snapshots if snapshot in bounds.protected), None):
            raise LostRace(f"Snapshot {needed} of {head.name} is needed since the plan: {bounds.protected[needed]}.")
        for _ in self.check_deletions(files):
            pass
        journal.doom(context.conn, owner, [(file.path, file.size_bytes) for file in files])
        fault_point("expire-noted")
        remove_snapshots(head, snapshots, refs)
        fault_point("expire-committed")
        if owner.table_id is not None:
            journal.forget_published(context.conn, owner.table_id, snapshots)

    def delete_files(self, files: Iterable[Deletable]) -> Iterator[DeletionResult]:
        """Delete files of the plan, a batch at a time."""
        return delete_files(self.check_deletions(files))

    def check_deletions(self, files: Iterable[Deletable]) -> Iterator[Deletable]:
        """Yield the files after checking that each is in the plan and not staged; refuse at the first that is not."""
        return self.make_deletion_check()(files)

    def make_deletion_check(self) -> Callable[[Iterable[Deletable]], Iterator[Deletable]]:
        """The same check for many calls; the planned files are collected once."""
        planned = PathSet()
        planned.add(file.path for file in _planned_deletions(self.plan))
        return partial(self._check_deletions, planned)

    def _check_deletions(self, planned: PathSet, files: Iterable[Deletable]) -> Iterator[Deletable]:
        staged = journal.read_staged(self.context.conn)
        protected = staged | self.plan.bounds.metadata_files
        left = iter(files)
        while batch := list(islice(left, _FILES_AT_ONCE)):
            for file, is_planned in zip(batch, planned.which([file.path for file in batch]), strict=True):
                if not is_planned:
                    raise refuse(self.plan, f"deletes {file.path}, which is not in its plan")
                if file.path in protected:
                    raise refuse(self.plan, f"deletes {file.path}, which is protected")
            yield from batch


def check_procedures_fit(head: LakeHead) -> None:
    """Refuse a table whose older files lack columns with a default: Iceberg's procedures would write NULL for it."""
    if has_missing(head.properties):
        raise EngineUnsuitable(
            f"{head.name} has columns with a default for older rows, which Iceberg's procedures know nothing of."
        )


def _snapshot_ids(metadata: Mapping[str, Any]) -> set[int]:
    return {snapshot["snapshot-id"] for snapshot in metadata.get("snapshots", ())}


def _planned_deletions(plan: MaintenancePlan) -> Iterator[ListedFile]:
    match plan.change:
        case ExpiryChange() as change:
            yield from change.files
            yield from change.leftover
        case SweepPlan() as sweep:
            yield from sweep.files
            yield from sweep.overdue
        case MetadataPlan() as metadata:
            yield from metadata.files
