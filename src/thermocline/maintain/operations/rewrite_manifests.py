"""Manifests written again: fewer, grouped by partition spec and clustered by partition, so that planning reads less."""

from __future__ import annotations

import time

from thermocline.core.maintenance.manifests import ManifestGroup, plan_manifests
from thermocline.core.maintenance.outcome import Outcome
from thermocline.errors import LostRace
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table
from thermocline.lake.commit.rewrite_manifests import RewrittenManifests, rewrite_manifests
from thermocline.lake.read.manifest_list import read_manifest_facts
from thermocline.maintain.commit import commit_and_publish
from thermocline.maintain.context import PassContext
from thermocline.maintain.operations.expire_snapshots import CONFLICT
from thermocline.runtime.retries import back_off, retry_on


def run_rewrite_manifests(context: PassContext) -> Outcome:
    """Rewrite the data manifests when there are enough of them and they would become fewer."""
    started = time.monotonic()
    head = load_table(context.spark(), context.target.name)
    if head.snapshot_id is None:
        return Outcome(operation="rewrite_manifests", status="skipped", sentence="no current snapshot")
    facts = read_manifest_facts(head.metadata_location)
    policy = context.policy
    plan = plan_manifests(
        facts, min_manifests=policy.manifest_rewrite_min_manifests, target_bytes=policy.manifest_target_bytes
    )
    if plan.skip is not None:
        return Outcome(operation="rewrite_manifests", status="skipped", sentence=plan.skip, details=plan.details)
    manifests, entries = sum(len(group.paths) for group in plan.groups), sum(group.entries for group in plan.groups)
    if context.dry_run:
        sentence = f"would rewrite {manifests} manifests ({entries} entries)"
        details = tuple(f"spec {group.spec_id}: {len(group.paths)} manifests" for group in plan.groups)
        return Outcome(
            operation="rewrite_manifests", status="skipped", sentence=sentence, details=(*details, *plan.details)
        )
    try:
        done = [_rewrite(context, group) for group in plan.groups]
    except LostRace:
        return Outcome(operation="rewrite_manifests", status="failed", sentence=CONFLICT, details=plan.details)
    before, after = sum(one.before for one in done), sum(one.after for one in done)
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
        details=plan.details,
    )


def _rewrite(context: PassContext, group: ManifestGroup) -> RewrittenManifests:
    """One commit; when the table moved, with the manifests of that spec which are there then."""
    attempts = max(context.policy.max_commit_retries, 1)
    for attempt in retry_on(LostRace, attempts=attempts, wait=back_off):
        made: list[RewrittenManifests] = []

        def commit(head: LakeHead, stamp: OpStamp, made: list[RewrittenManifests] = made) -> int:
            there = [
                fact.path
                for fact in read_manifest_facts(head.metadata_location)
                if fact.is_data and fact.spec_id == group.spec_id
            ]
            made.append(rewrite_manifests(head, group.spec_id, there, stamp, context.policy.manifest_target_bytes))
            return made[-1].snapshot_id

        with attempt:
            commit_and_publish(
                context,
                "rewrite_manifests",
                commit,
                counters={"manifests": len(group.paths)},
                message=f"rewrote manifests of spec {group.spec_id}",
            )
            return made[-1]
    raise AssertionError("the loop returns or raises")
