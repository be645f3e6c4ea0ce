"""Rewrite manifests: fewer, grouped by partition spec and clustered by partition, so that planning reads less."""

from __future__ import annotations

import time

from thermocline.core.maintenance.manifests import ManifestPlan, plan_manifests
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors import LostRace
from thermocline.lake.actions.rewrite_manifests import RewrittenManifests
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.operations.compaction_tasks import NO_SNAPSHOT
from thermocline.maintain.operations.expire_snapshots import CONFLICT
from thermocline.maintain.plans.planning import Observed, Planned, PlanRequest, idle_plan
from thermocline.maintain.plans.safety import read_bounds_of
from thermocline.runtime.retries import back_off


def plan_rewrite_manifests(request: PlanRequest) -> Planned:
    """The data manifests of each spec, when there are enough of them and they would become fewer."""
    operation, context = request.operation, request.context
    head = load_table(context.spark(), context.target.name)
    bounds = read_bounds_of(context, head)
    if head.snapshot_id is None:
        return Planned(plan=idle_plan(operation, head, bounds, NO_SNAPSHOT))
    policy = context.policy
    plan = plan_manifests(
        read_manifest_facts(head.metadata_location),
        min_manifests=policy.manifest_rewrite_min_manifests,
        target_bytes=policy.manifest_target_bytes,
    )
    return Planned(
        plan=MaintenancePlan(
            operation=operation,
            metadata_location=head.metadata_location,
            snapshot=head.snapshot_id,
            bounds=bounds,
            change=plan if plan.groups else None,
            idle=plan.skip,
            notes=plan.details,
        ),
        observed=Observed(head=head),
    )


def run_rewrite_manifests(applier: Applier) -> Outcome:
    """Rewrite the groups of the plan, one commit each; when the table changed, plan the remaining ones again."""
    started, policy = time.monotonic(), applier.context.policy
    notes, done, entries = applier.plan.notes, dict[int, RewrittenManifests](), 0
    attempts = max(policy.max_commit_retries, 1)
    for attempt in range(attempts):
        plan = applier.plan.change
        if not isinstance(plan, ManifestPlan):
            break
        try:
            for group in plan.groups:
                if group.spec_id not in done:
                    done[group.spec_id] = applier.rewrite_manifests(group, policy.manifest_target_bytes)
                    entries += group.entries
            break
        except LostRace:
            if attempt == attempts - 1:
                return Outcome(operation="rewrite_manifests", status="failed", sentence=CONFLICT, details=notes)
            time.sleep(back_off(attempt))
            applier = applier.plan_again()
    if not done:
        idle = applier.plan.idle or CONFLICT
        return Outcome(operation="rewrite_manifests", status="skipped", sentence=idle, details=notes)
    before, after = sum(one.before for one in done.values()), sum(one.after for one in done.values())
    return Outcome(
        operation="rewrite_manifests",
        status="done",
        sentence=f"rewrote {before} manifests into {after} ({entries} entries)",
        counters={
            "manifests_rewritten": before,
            "manifests_written": after,
            "entries_total": entries,
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
        details=notes,
    )
