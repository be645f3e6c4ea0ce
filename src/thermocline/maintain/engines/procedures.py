"""The engine `spark-procedures`: Iceberg's own rewrites, for comparison and for users who want only those.

Iceberg chooses the files, so the plan is the call with its options. The call runs on a staged table (`staged_commit`),
and the applier checks what it made before it is committed. Operations that delete files are ours: Iceberg's procedures
know nothing of readers, pins and staged files.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from thermocline.core.maintenance.manifests import plan_manifests
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.maintenance.plan import MaintenancePlan, ProcedureCall
from thermocline.core.policy.policy import Policy
from thermocline.core.policy.procedure_keys import find_not_honoured
from thermocline.errors.maintenance import EngineUnsuitable
from thermocline.lake.actions.iceberg_actions import (
    ActionResult,
    remove_dangling_deletes,
    run_rewrite_data_files,
    run_rewrite_manifests,
    run_rewrite_position_deletes,
)
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.maintain.commits.applier import Applier, check_procedures_fit
from thermocline.maintain.operations.compaction_tasks import NO_SNAPSHOT
from thermocline.maintain.operations.registry import RUNNERS, plan_operation
from thermocline.maintain.plans.planning import Observed, Planned, PlanRequest, idle_plan
from thermocline.maintain.plans.safety import read_bounds_of

_MANIFEST_TARGET, _MANIFEST_TARGET_BYTES = "commit.manifest.target-size-bytes", 8_388_608
Strategy = Literal["binpack", "sort", "zorder"]
PROCEDURES: frozenset[Operation] = frozenset({"compact", "rewrite_position_delete_files", "rewrite_manifests"})


def plan_procedure(request: PlanRequest) -> Planned:
    """The call of Iceberg's procedure for an operation; operations without one are planned as for our own engine."""
    if request.operation not in PROCEDURES:
        return plan_operation(request)
    operation, context = request.operation, request.context
    head = load_table(context.spark(), context.target.name)
    bounds = read_bounds_of(context, head)
    if head.snapshot_id is None:
        return Planned(plan=idle_plan(operation, head, bounds, NO_SNAPSHOT))
    check_procedures_fit(head)
    check_keys(context.policy, operation, str(context.target.name))
    plan = MaintenancePlan(
        operation=operation,
        metadata_location=head.metadata_location,
        snapshot=head.snapshot_id,
        bounds=bounds,
        change=_plan_call(operation, head, context.policy),
    )
    if operation == "rewrite_manifests":
        found = plan_manifests(
            read_manifest_facts(head.metadata_location),
            min_manifests=context.policy.manifest_rewrite_min_manifests,
            target_bytes=context.policy.manifest_target_bytes,
        )
        if found.skip is not None:
            plan = replace(plan, change=None, idle=found.skip, notes=found.details)
    return Planned(plan=plan, observed=Observed(head=head))


def check_keys(policy: Policy, operation: Operation, table: str) -> None:
    """Refuse policy keys that a procedure would silently ignore."""
    odd = find_not_honoured(policy, operation)
    if not odd:
        return
    given = ", ".join(f"{key.name}={key.value}" for key in odd)
    changed = " ".join(f"--set {shlex.quote(f'{key.name}={key.harmless}')}" for key in odd)
    raise EngineUnsuitable(
        f"The engine spark-procedures cannot honour {given} in {operation} of {table}; nothing was begun.",
        hint=f"Use the engine spark, which honours every key, or give them up: thermocline policy {table} {changed}",
    )


def _plan_call(operation: Operation, head: LakeHead, policy: Policy) -> ProcedureCall:
    match operation:
        case "compact":
            return _plan_compaction(head, policy)
        case "rewrite_position_delete_files":
            return ProcedureCall(
                procedure=operation,
                options={
                    "min-input-files": str(policy.delete_min_input_files),
                    "target-file-size-bytes": str(policy.delete_target_bytes),
                    "max-file-group-size-bytes": str(policy.delete_max_group_bytes),
                },
            )
    target = int(head.properties.get(_MANIFEST_TARGET, _MANIFEST_TARGET_BYTES))
    if policy.manifest_target_bytes != target:
        raise EngineUnsuitable(
            f"The engine spark-procedures cannot honour manifest_target_bytes={policy.manifest_target_bytes}: "
            f"Iceberg's procedure goes by the table property {_MANIFEST_TARGET}, which is {target}.",
            hint="Use the engine spark, or set the table property to the same size.",
        )
    return ProcedureCall(procedure=operation)


def _plan_compaction(head: LakeHead, policy: Policy) -> ProcedureCall:
    strategy: Strategy = "binpack"
    if policy.rewrite_strategy == "zorder":
        strategy = "zorder"
    elif policy.rewrite_strategy == "sort" or (
        policy.rewrite_strategy == "auto" and int(head.metadata.get("default-sort-order-id", 0)) > 0
    ):
        strategy = "sort"
    options = {
        "target-file-size-bytes": str(policy.rewrite_target_bytes),
        "min-file-size-bytes": str(
            min(policy.small_file_threshold_bytes or policy.rewrite_target_bytes, policy.rewrite_target_bytes - 1)
        ),
        "max-file-size-bytes": str(max(policy.too_large_bytes, policy.rewrite_target_bytes * 9 // 5)),
        "min-input-files": str(policy.rewrite_min_input_files),
        "max-concurrent-file-group-rewrites": str(policy.max_parallel_tasks),
        "delete-file-threshold": str(
            policy.delete_compaction_min_deletes if policy.delete_compaction_enabled else 2_147_483_647
        ),
        "delete-ratio-threshold": str(policy.delete_ratio_threshold if policy.delete_compaction_enabled else 1.0),
        "use-starting-sequence-number": "true",
    }
    return ProcedureCall(procedure="compact", strategy=strategy, columns=policy.zorder_columns, options=options)


@dataclass(frozen=True, slots=True)
class ProceduresEngine:
    """Calls Iceberg's procedures as they were planned; the other operations are ours."""

    name: str = "spark-procedures"

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        call = plan.change
        if not isinstance(call, ProcedureCall):
            return RUNNERS[plan.operation](applier)
        match call.procedure:
            case "compact":
                return _compact(applier, call)
            case "rewrite_position_delete_files":
                done = applier.run_procedure(partial(run_rewrite_position_deletes, options=call.options))
                counters = {
                    "delete_files_rewritten": done.before,
                    "delete_files_written": done.after,
                    "delete_bytes_rewritten": done.bytes,
                }
                sentence = f"rewrote {done.before} position delete files into {done.after}"
                return _outcome(plan.operation, sentence, counters, "no position delete files eligible for rewrite")
        done = applier.run_procedure(run_rewrite_manifests)
        counters = {"manifests_rewritten": done.before, "manifests_written": done.after}
        sentence = f"rewrote {done.before} manifests into {done.after}"
        return _outcome(plan.operation, sentence, counters, "Iceberg's procedure found no manifests worth rewriting")


def _compact(applier: Applier, call: ProcedureCall) -> Outcome:
    strategy: Strategy = "sort" if call.strategy == "sort" else "zorder" if call.strategy == "zorder" else "binpack"
    done = applier.run_procedure(
        partial(run_rewrite_data_files, strategy=strategy, columns=call.columns, options=call.options)
    )
    # A commit of its own: finding dangling deletes reads the committed table from tasks.
    removed = applier.run_procedure(remove_dangling_deletes).removed_deletes
    return _compact_outcome(replace(done, removed_deletes=removed))


def _compact_outcome(done: ActionResult) -> Outcome:
    counters = {
        "files_merged": done.before,
        "files_written": done.after,
        "bytes_read": done.bytes,
        "removed_delete_files": done.removed_deletes,
    }
    if done.failed and not done.before:
        return Outcome(
            operation="compact",
            status="failed",
            sentence=f"{done.failed} files could not be rewritten",
            counters=counters,
        )
    sentence = f"compacted {done.before} files into {done.after}"
    if not done.before and done.removed_deletes:
        sentence = f"removed {done.removed_deletes} dangling delete file(s)"
    return _outcome("compact", sentence, counters, "no files eligible for compaction")


def _outcome(operation: Operation, sentence: str, counters: dict[str, int], idle: str) -> Outcome:
    if not any(counters.values()):
        return Outcome(operation=operation, status="skipped", sentence=idle, counters=counters)
    return Outcome(operation=operation, status="done", sentence=sentence, counters=counters)
