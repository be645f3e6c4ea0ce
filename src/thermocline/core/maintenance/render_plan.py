"""A maintenance plan in words, for a dry run. Pure: everything it says is read from the plan."""

from __future__ import annotations

from typing import assert_never

from thermocline.core.maintenance.bins import CompactionPlan, render_group
from thermocline.core.maintenance.delete_plans import DeletesPlan
from thermocline.core.maintenance.expiry import ExpiryChange
from thermocline.core.maintenance.manifests import ManifestPlan
from thermocline.core.maintenance.orphans import MetadataPlan, SweepPlan
from thermocline.core.maintenance.plan import Change, FormatChange, MaintenancePlan, PlannedOperation, ProcedureCall

_MAX_EXPIRY_STEPS = 20
_MAX_FILES = 1000


def render_plan(plan: MaintenancePlan) -> PlannedOperation:
    """What the operation would do, or why it would do nothing."""
    if plan.change is None:
        return PlannedOperation(
            operation=plan.operation,
            will_run=False,
            sentence=plan.refused or plan.idle or "nothing to do",
            steps=plan.notes,
        )
    sentence, steps = _render_change(plan.change)
    will_run = not isinstance(plan.change, ExpiryChange) or not plan.change.plan.is_empty
    return PlannedOperation(operation=plan.operation, will_run=will_run, sentence=sentence, steps=(*steps, *plan.notes))


def _render_change(change: Change) -> tuple[str, tuple[str, ...]]:
    match change:
        case CompactionPlan():
            return _render_compaction(change)
        case DeletesPlan():
            count = len({delete.key for made in change.bins for delete in made.deletes})
            return f"would rewrite {count} delete files", ()
        case ManifestPlan():
            manifests = sum(len(group.paths) for group in change.groups)
            entries = sum(group.entries for group in change.groups)
            steps = tuple(f"spec {group.spec_id}: {len(group.paths)} manifests" for group in change.groups)
            return f"would rewrite {manifests} manifests ({entries} entries)", steps
        case ExpiryChange():
            return _render_expiry(change)
        case SweepPlan():
            overdue = f"{len(change.overdue)} quarantined file(s) were kept long enough and would be deleted"
            steps = (*change.steps, overdue) if change.overdue else change.steps
            return f"would remove {change.count} orphan file(s)", steps
        case MetadataPlan():
            steps = tuple(
                f"{file.path} would be deleted ({file.size_bytes} bytes)" for file in change.files[:_MAX_FILES]
            )
            return f"would prune {len(change.files)} metadata file(s)", steps
        case ProcedureCall():
            options = ", ".join(f"{name}={value}" for name, value in sorted(change.options.items()))
            strategy = f" by {change.strategy}" if change.strategy else ""
            steps = (f"{change.procedure}{strategy}" + (f" with {options}" if options else ""),)
            return "Iceberg's procedure decides for itself what it rewrites", steps
        case FormatChange():
            return change.sentence, change.steps
    assert_never(change)


def _render_compaction(plan: CompactionPlan) -> tuple[str, tuple[str, ...]]:
    steps = [
        (
            f"bin {made.number}: {len(made.files)} files, {made.size_bytes:,} bytes of "
            f"{render_group(plan.seen, made.group)} by {made.kernel}"
        )
        + (f", {made.in_debt} of them under deletes" if made.in_debt else "")
        for made in plan.bins
    ]
    if plan.dangling:
        steps.append(f"{len(plan.dangling)} delete files match no data file and would be dropped")
    merged = sum(len(made.files) for made in plan.bins)
    return f"would compact {merged} files (across {len(plan.bins)} bins)", tuple(steps)


def _render_expiry(change: ExpiryChange) -> tuple[str, tuple[str, ...]]:
    steps = [f"{len(change.leftover)} file(s) that a killed pass left would be deleted"] if change.leftover else []
    if change.plan.is_empty:
        return "no snapshots expired", tuple(steps)
    steps += [f"snapshot {snapshot} would expire" for snapshot in change.plan.snapshots[:_MAX_EXPIRY_STEPS]]
    steps += [f"ref {ref} would be removed: it is past its age" for ref in change.plan.refs]
    steps += [f"{file.path} would be deleted ({file.size_bytes} bytes)" for file in change.files[:_MAX_EXPIRY_STEPS]]
    count = len(change.plan.snapshots)
    return f"would expire {count} snapshot(s), deleting {len(change.files)} unreferenced file(s)", tuple(steps)
