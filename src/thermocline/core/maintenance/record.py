"""What a pass amounts to: one status, one sentence, and the counters that the journal keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from thermocline.core.maintenance.outcome import Operation, Outcome, counters_of, render_summary
from thermocline.core.policy.formats import OperationSpec
from thermocline.core.policy.operations import ALL_DISABLED, ICEBERG_OPERATIONS

PassStatus = Literal["done", "skipped", "failed", "disabled", "paused"]
NO_REASON = "made no commit and gave no reason"

ICEBERG_TOTALS: Mapping[str, tuple[str, ...]] = {
    "delete_compacted_files": ("compact.delete_compacted_files", "convert_deletes.files_converted"),
    "removed_delete_files": (
        "compact.removed_delete_files",
        "convert_deletes.removed_delete_files",
        "rewrite_position_delete_files.delete_files_rewritten",
    ),
    "rewritten_files": ("compact.files_merged",),
    "added_files": ("compact.files_written",),
    "rewritten_manifests": ("rewrite_manifests.manifests_rewritten",),
    "expired_snapshots": ("expire_snapshots.snapshots_expired",),
    "orphan_files_deleted": ("remove_orphans.orphans_removed",),
    "bytes_read": ("compact.bytes_read", "convert_deletes.bytes_read", "rewrite_position_delete_files.bytes_read"),
    "bytes_written": (
        "compact.bytes_written",
        "convert_deletes.bytes_written",
        "rewrite_position_delete_files.bytes_written",
    ),
    "bytes_freed": ("expire_snapshots.bytes_freed", "remove_orphans.bytes_freed", "prune_metadata.bytes_freed"),
}


def counters_to_keep(
    outcomes: Sequence[Outcome], totals: Mapping[str, tuple[str, ...]] = ICEBERG_TOTALS
) -> dict[str, int]:
    """The totals of a pass, then every operation's own counters under its name."""
    own = counters_of(outcomes)
    return {total: sum(own.get(key, 0) for key in keys) for total, keys in totals.items()} | own


def checked(outcome: Outcome, duration_ms: int) -> Outcome:
    """The outcome with its duration; one that did nothing and does not say why is no success."""
    did = any(value for key, value in outcome.counters.items() if key != "duration_ms")
    if (outcome.status == "done" and not did) or not outcome.sentence.strip():
        outcome = replace(outcome, status="failed", sentence=outcome.sentence.strip() or NO_REASON)
        if outcome.sentence != NO_REASON:
            outcome = replace(outcome, sentence=f"{NO_REASON}: {outcome.sentence}")
    return replace(outcome, counters={"duration_ms": duration_ms, **outcome.counters})


def status_of(outcomes: Sequence[Outcome]) -> PassStatus:
    """Failed when one failed; disabled or paused when nothing ran for that reason; skipped when nothing had to be
    done."""
    found = {outcome.status for outcome in outcomes}
    for status in ("failed", "done"):
        if status in found:
            return "failed" if status == "failed" else "done"
    if "paused" in found:
        return "paused"
    return "disabled" if found <= {"disabled"} else "skipped"


def sentence_of(
    outcomes: Sequence[Outcome], named: Sequence[Operation] = (), specs: Sequence[OperationSpec] = ICEBERG_OPERATIONS
) -> str:
    """Outcomes in the order they ran; operations that nobody named and that had nothing to do are left out."""
    if outcomes and all(outcome.status == "disabled" for outcome in outcomes):
        return ALL_DISABLED
    silent = {spec.name for spec in specs if spec.silent_when_idle}
    shown = [
        outcome
        for outcome in outcomes
        if outcome.operation not in silent or outcome.operation in named or outcome.status in ("done", "failed")
    ]
    return render_summary(shown)


def error_of(outcomes: Sequence[Outcome]) -> str | None:
    """The sentences of what failed."""
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    return render_summary(failed) if failed else None
