"""Check an engine's changes against its plan and the bounds. Pure: raises `OutsideThePlan`, or returns.

Every engine's results pass through here, ours included, before anything is committed or deleted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from thermocline.core.lake_file import LiveDataFile
from thermocline.core.maintenance.bins import Bin, CompactionPlan
from thermocline.core.maintenance.debt import most_deleted_rows
from thermocline.core.maintenance.delete_plans import DeletesPlan, still_applying
from thermocline.core.maintenance.expiry import MAIN, ExpiryChange, RefFact
from thermocline.core.maintenance.files import DeleteIndex, LakeSnapshot, is_same_entry, unneeded_deletes
from thermocline.core.maintenance.manifests import ManifestPlan
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors.maintenance import OutsideThePlan
from thermocline.lake.commit.rewrite_files import Rewrite


def check_rewrite(plan: MaintenancePlan, now: LakeSnapshot, rewrite: Rewrite) -> None:
    """Refuse a replacement of files that the plan does not name, that loses or adds rows, or that drops deletes which
    still hide rows. `now` is the version the replacement is committed on."""
    match plan.change:
        case CompactionPlan() as compaction:
            _check_bins(plan, compaction, rewrite)
            _check_dropped(plan, now, rewrite, set())
        case DeletesPlan() as deletes:
            if rewrite.removed or rewrite.added:
                raise refuse(plan, "replaces data files")
            planned = {delete.key for made in deletes.bins for delete in made.deletes}
            _check_dropped(plan, now, rewrite, planned)
            _check_converted(plan, deletes, now, rewrite)
        case _:
            raise refuse(plan, "replaces files")


def _check_bins(plan: MaintenancePlan, compaction: CompactionPlan, rewrite: Rewrite) -> None:
    planned = {file.path: (made, file) for made in compaction.bins for file in made.files}
    for file in rewrite.removed:
        if file.path not in planned or not is_same_entry(file, planned[file.path][1]):
            raise refuse(plan, f"replaces {file.path}, which is not in its plan")
    removed = Counter(planned[file.path][0].number for file in rewrite.removed)
    rows: dict[int, int] = defaultdict(int)
    for new in rewrite.added:
        if new.like.path not in planned or planned[new.like.path][0].number not in removed:
            raise refuse(plan, f"adds {new.path}, which replaces no file of its plan")
        rows[planned[new.like.path][0].number] += new.rows
    for made in compaction.bins:
        if made.number not in removed:
            continue
        if removed[made.number] != len(made.files):
            raise refuse(plan, f"replaces {removed[made.number]} of the {len(made.files)} files of bin {made.number}")
        if reason := why_not_whole(made, rows[made.number]):
            raise refuse(plan, reason)


def why_not_whole(made: Bin, rows: int) -> str | None:
    """Why outputs with this many rows cannot replace a bin, or None."""
    before = sum(file.record_count for file in made.files)
    least: int | None = before
    for file in made.files:
        most = most_deleted_rows(file, made.deletes.get(file.path, ()))
        least = None if least is None or most is None else least - most
    if rows <= before and (least is None or rows >= least):
        return None
    return f"{before} rows of {made.files[0].path} and others became {rows}; their bin is left as it was"


def _check_dropped(
    plan: MaintenancePlan, now: LakeSnapshot, rewrite: Rewrite, planned: Collection[tuple[str, int]]
) -> None:
    """A delete file may be removed when the plan names it, when it no longer deletes a row, or when its positions were
    moved to the files that replaced its data files."""
    if not rewrite.dropped:
        return
    gone = [file.path for file in rewrite.removed]
    sequence = rewrite.sequence_number if rewrite.sequence_number is not None else now.sequence_number
    later = [_as_data(new.path, new.like, sequence) for new in rewrite.added]
    free = {delete.key for delete in unneeded_deletes(now, gone, later)} | set(planned)
    left = [delete for delete in rewrite.dropped if delete.key not in free]
    if not left:
        return
    index = DeleteIndex(now)
    moved = {delete.key for file in rewrite.removed for delete in index.of(file) if delete.kind != "equality"}
    for delete in left:
        if delete.key not in moved or not rewrite.new_deletes:
            raise refuse(plan, f"drops the delete file {delete.path}, which still hides rows")


def _check_converted(plan: MaintenancePlan, deletes: DeletesPlan, now: LakeSnapshot, rewrite: Rewrite) -> None:
    """An equality delete may be removed when every data file that it applies to was converted."""
    converted = {file.path for made in deletes.bins for file in made.data}
    equality = [delete for delete in rewrite.dropped if delete.kind == "equality"]
    if still_applying(now, equality, converted):
        raise refuse(plan, "drops an equality delete that applies to data files which were not converted")


def _as_data(path: str, like: LiveDataFile, sequence_number: int) -> LiveDataFile:
    return LiveDataFile(
        path=path,
        size_bytes=0,
        record_count=0,
        sequence_number=sequence_number,
        spec_id=like.spec_id,
        partition=like.partition,
    )


def check_manifests(plan: MaintenancePlan, spec_id: int, paths: Iterable[str]) -> None:
    """Refuse manifests that the plan does not name."""
    groups = plan.change.groups if isinstance(plan.change, ManifestPlan) else ()
    planned = {path for group in groups if group.spec_id == spec_id for path in group.paths}
    if other := next((path for path in paths if path not in planned), None):
        raise refuse(plan, f"rewrites the manifest {other}, which is not in its plan")


def check_expiry(
    plan: MaintenancePlan,
    current: int | None,
    refs: Sequence[RefFact],
    *,
    expiring: Sequence[int],
    removed_refs: Sequence[str],
) -> None:
    """Refuse snapshots and refs that the plan does not name, or that its bounds protect. `current` and `refs` are those
    of the version the expiry is committed on."""
    change = plan.change
    planned = change.plan if isinstance(change, ExpiryChange) else None
    for snapshot in expiring:
        if planned is None or snapshot not in planned.snapshots:
            raise refuse(plan, f"expires snapshot {snapshot}, which is not in its plan")
        if holder := plan.bounds.protected.get(snapshot):
            raise refuse(plan, f"expires snapshot {snapshot}, which is protected: {holder}")
        if snapshot == current:
            raise refuse(plan, f"expires snapshot {snapshot}, which is the current one")
    for ref in removed_refs:
        if planned is None or ref not in planned.refs or ref == MAIN:
            raise refuse(plan, f"removes the ref {ref}, which is not in its plan")
    going = set(expiring)
    if kept := next((ref for ref in refs if ref.name not in removed_refs and ref.snapshot_id in going), None):
        raise refuse(plan, f"expires snapshot {kept.snapshot_id}, which is protected: ref {kept.name}")


def check_snapshot_counts(plan: MaintenancePlan, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse a snapshot of Iceberg's own rewrites that is no replacement, or whose summary has another row count than
    the planned one."""
    if after.get("operation") != "replace":
        raise refuse(plan, f"made a snapshot of operation {after.get('operation')}, which is no rewrite")
    if plan.operation == "compact":
        rows = int(before.get("total-records", 0))
        hidden = int(before.get("total-position-deletes", 0))
        has_equality = int(before.get("total-equality-deletes", 0)) > 0
        now = int(after.get("total-records", 0))
        if now > rows or (now < rows - hidden and not has_equality):
            raise refuse(plan, f"made {now} rows of {rows}")
        return
    for key in ("total-records", "total-data-files"):
        if before.get(key) != after.get(key):
            raise refuse(plan, f"changed {key} from {before.get(key)} to {after.get(key)}")


def check_kept(plan: MaintenancePlan, what: str, before: Iterable[object], after: Collection[object]) -> None:
    """Refuse when something of the planned version is missing."""
    if (gone := next((one for one in before if one not in after), None)) is not None:
        raise refuse(plan, f"removes {what} {gone}")


def refuse(plan: MaintenancePlan, problem: str) -> OutsideThePlan:
    return OutsideThePlan(f"The engine {problem} ({plan.operation}); nothing was committed or deleted.")
