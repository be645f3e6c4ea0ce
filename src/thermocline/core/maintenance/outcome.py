"""What became of one operation of a pass: a sentence for people and counters for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Operation = str
"""The name of an operation; which there are, a table's format says."""
Status = Literal["done", "skipped", "failed", "disabled", "paused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One operation's result. `counters` are named without the operation: `files_merged`, not
    `compact.files_merged`."""

    operation: Operation
    status: Status
    sentence: str
    counters: Mapping[str, int] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    """Why groups were left alone, what a dry run would do, which threshold decided."""
    will_run: bool = False
    """Of a dry run: whether the plan changes something."""


def render_summary(outcomes: Sequence[Outcome]) -> str:
    """`compact: compacted 15 files into 3 (across 3 bins); expire_snapshots: …`, in the order they ran."""
    return "; ".join(
        f"{outcome.operation}: error: {outcome.sentence}"
        if outcome.status == "failed"
        else f"{outcome.operation}: {outcome.sentence}"
        for outcome in outcomes
    )


def counters_of(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """All counters under their full keys."""
    return {f"{outcome.operation}.{key}": value for outcome in outcomes for key, value in outcome.counters.items()}
