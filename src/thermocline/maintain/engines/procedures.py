"""The engine `spark-procedures`: Iceberg's own rewrites, as a yardstick and for those who trust nothing else.

They commit by themselves, so on a registered table the writer's place is held from the look to the publication; what
they made is of operation `replace` and is adopted. What deletes files is always ours: Iceberg's procedures know nothing
of readers, pins and staged files.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Literal

from thermocline.catalog import journal
from thermocline.core.maintenance.manifests import plan_manifests
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.policy.policy import Policy
from thermocline.core.policy.procedure_keys import find_not_honoured
from thermocline.errors.maintenance import EngineUnsuitable
from thermocline.lake.commit.compare_and_swap import LakeHead, flush_snapshot, load_table
from thermocline.lake.commit.iceberg_actions import (
    ActionResult,
    run_rewrite_data_files,
    run_rewrite_manifests,
    run_rewrite_position_deletes,
)
from thermocline.lake.read.added_files import read_added_files
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.lake.read.table_metadata import has_missing
from thermocline.maintain.context import PassContext
from thermocline.maintain.writer_lock import writer_lock
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.runtime.file_io import flush_recent

_MANIFEST_TARGET, _MANIFEST_TARGET_BYTES = "commit.manifest.target-size-bytes", 8_388_608
PROCEDURES: frozenset[Operation] = frozenset({"compact", "rewrite_position_delete_files", "rewrite_manifests"})


def run_procedure(operation: Operation, context: PassContext) -> Outcome:
    """One of Iceberg's rewrites, and what it did in our words."""
    head = load_table(context.spark(), context.target.name)
    if head.snapshot_id is None:
        return Outcome(operation=operation, status="skipped", sentence="no current snapshot")
    if has_missing(head.properties):
        raise EngineUnsuitable(
            f"{context.target.name} has columns with a default for older rows, which Iceberg's procedures "
            "know nothing of."
        )
    check_keys(context.policy, operation, str(context.target.name))
    if context.dry_run:
        return Outcome(
            operation=operation, status="skipped", sentence="Iceberg's procedure decides for itself what it rewrites"
        )
    match operation:
        case "compact":
            done = _publishing(context, lambda head: _compact(head, context.policy))
            return _told_compaction(done)
        case "rewrite_position_delete_files":
            options = {
                "min-input-files": str(context.policy.delete_min_input_files),
                "target-file-size-bytes": str(context.policy.delete_target_bytes),
                "max-file-group-size-bytes": str(context.policy.delete_max_group_bytes),
            }
            done = _publishing(context, lambda head: run_rewrite_position_deletes(head, options))
            counters = {
                "delete_files_rewritten": done.before,
                "delete_files_written": done.after,
                "delete_bytes_rewritten": done.bytes,
            }
            sentence = f"rewrote {done.before} position delete files into {done.after}"
            return _told(operation, sentence, counters, "no position delete files eligible for rewrite")
        case _:
            return _rewrite_manifests(context, head)


def check_keys(policy: Policy, operation: Operation, table: str) -> None:
    """Refuse what the policy asks for and a procedure would leave out without a word."""
    odd = find_not_honoured(policy, operation)
    if not odd:
        return
    asked = ", ".join(f"{key.name}={key.value}" for key in odd)
    changed = " ".join(f"--set {shlex.quote(f'{key.name}={key.harmless}')}" for key in odd)
    raise EngineUnsuitable(
        f"The engine spark-procedures cannot honour {asked} in {operation} of {table}; nothing was begun.",
        hint=f"Use the engine spark, which honours every key, or give them up: thermocline policy {table} {changed}",
    )


def _rewrite_manifests(context: PassContext, head: LakeHead) -> Outcome:
    policy, target = context.policy, int(head.properties.get(_MANIFEST_TARGET, _MANIFEST_TARGET_BYTES))
    if policy.manifest_target_bytes != target:
        raise EngineUnsuitable(
            f"The engine spark-procedures cannot honour manifest_target_bytes={policy.manifest_target_bytes}: "
            "Iceberg's procedure goes"
            f" by the table property {_MANIFEST_TARGET}, which is {target}.",
            hint="Use the engine spark, or set the table property to the same size.",
        )
    facts = read_manifest_facts(head.metadata_location)
    plan = plan_manifests(facts, min_manifests=policy.manifest_rewrite_min_manifests, target_bytes=target)
    if plan.skip is not None:
        return Outcome(operation="rewrite_manifests", status="skipped", sentence=plan.skip, details=plan.details)
    done = _publishing(context, run_rewrite_manifests)
    counters = {"manifests_rewritten": done.before, "manifests_written": done.after}
    sentence = f"rewrote {done.before} manifests into {done.after}"
    return _told("rewrite_manifests", sentence, counters, "Iceberg's procedure found no manifests worth rewriting")


def _compact(head: LakeHead, policy: Policy) -> ActionResult:
    strategy: Literal["binpack", "sort", "zorder"] = "binpack"
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
        "remove-dangling-deletes": "true",
        "use-starting-sequence-number": "true",
    }
    return run_rewrite_data_files(head, strategy, policy.zorder_columns, options)


def _publishing(context: PassContext, rewrite: Callable[[LakeHead], ActionResult]) -> ActionResult:
    """Run a rewrite that commits by itself, and publish what it made."""
    registered = context.target.registered
    with writer_lock(context):
        if registered is None:
            head = load_table(context.spark(), context.target.name)
            done = rewrite(head)
            _flush_new(head, load_table(context.spark(), context.target.name))
            return done
        cut = journal.claim(context.conn, registered.id)
        resolve_unfinished(context.conn, registered, context.spark, cut.fence)
        cut = journal.read_cutline(context.conn, registered.id)
        head = load_table(context.spark(), context.target.name)
        cut = adopt_head(context.conn, registered, head, cut, context.worker)
        done = rewrite(head)
        after = load_table(context.spark(), context.target.name)
        _flush_new(head, after)
        adopt_head(context.conn, registered, after, cut, context.worker)
        return done


def _flush_new(before: LakeHead, after: LakeHead) -> None:
    """Flush what Iceberg's own writers left to the system, before it is published."""
    known = {told["snapshot-id"] for told in before.metadata.get("snapshots", ())}
    for told in after.metadata.get("snapshots", ()):
        if told["snapshot-id"] not in known:
            flush_recent(read_added_files(after, told["snapshot-id"]), time.time())
            flush_snapshot(after, told["snapshot-id"])


def _told_compaction(done: ActionResult) -> Outcome:
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
    return _told("compact", sentence, counters, "no files eligible for compaction")


def _told(operation: Operation, sentence: str, counters: dict[str, int], nothing: str) -> Outcome:
    if not any(counters.values()):
        return Outcome(operation=operation, status="skipped", sentence=nothing, counters=counters)
    return Outcome(operation=operation, status="done", sentence=sentence, counters=counters)
