"""The plan of one tiering cycle of one table, as `thermocline tier --dry-run` prints it and as the cycle performs it.

    make partitions → capture, move, raise the cut-line → drop → raise the retention line

Pure. A cycle that made partitions plans again as a whole, because rows that waited in the spill lie in them now.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thermocline.core.axis import render_axis
from thermocline.core.observation import TableObservation
from thermocline.core.plan.jumps import Jump, render_retention_jump
from thermocline.core.plan.premake import PremakePlan, render_premake
from thermocline.core.plan.tier import TierPlan, render_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRetentionLine:
    """Where the retention line is raised to, or the jump that it waits with."""

    line: int | None = None
    jump: Jump | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """What one cycle does, planned on one observation."""

    seen: TableObservation
    premake: PremakePlan
    tier: TierPlan
    retention: NextRetentionLine = field(default_factory=NextRetentionLine)
    """Of a cycle without a move: a cycle makes one commit."""


def render_cycle(plan: CyclePlan) -> tuple[str, ...]:
    """The plan in sentences."""
    key_type = plan.seen.key_type
    steps = list(render_premake(plan.premake, key_type))
    steps += [step for step in render_plan(plan.seen, plan.tier) if step != NOTHING]
    if plan.retention.jump is not None:
        steps.append(render_retention_jump(key_type, str(plan.seen.table), plan.retention.jump))
    elif plan.retention.line is not None:
        line = render_axis(key_type, plan.retention.line)
        steps.append(f"expire rows of the lake below {line}, the new retention line")
    return tuple(steps) or (NOTHING,)


NOTHING = "nothing to do"
