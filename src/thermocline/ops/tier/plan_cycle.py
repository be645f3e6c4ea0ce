"""Plan one tiering cycle of a table."""

from __future__ import annotations

from dataclasses import replace

from thermocline.core.observation import TableObservation
from thermocline.core.plan.cycle import CyclePlan, NextRetentionLine
from thermocline.core.plan.premake import PremakePlan, plan_premake
from thermocline.core.plan.tier import TierPlan, hold_back, render_waiting
from thermocline.ops.tier.jumps import read_next_retention_line
from thermocline.ops.tier.observe_table import plan_moves
from thermocline.ops.tier.tier_run import TierRun
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.premake import read_grid


def plan_cycle(work: TierRun) -> CyclePlan:
    """The whole cycle, on the table as it is now; without moves, drops and expiry where nothing may move by itself."""
    seen, tier = plan_moves(work.conn, work.table)
    if not work.may_move:
        waiting = render_waiting(str(seen.table), tier)
        seen = replace(seen, waits=(*seen.waits, *waiting))
        return CyclePlan(seen=seen, premake=_plan_premake(work, seen), tier=hold_back(tier, seen.cut.t))
    return CyclePlan(
        seen=seen, premake=_plan_premake(work, seen), tier=tier, retention=_plan_retention(work, seen, tier)
    )


def _plan_premake(work: TierRun, seen: TableObservation) -> PremakePlan:
    """Partitions to keep ready above the newest row."""
    registered = work.table.registered
    partitions = read_partitions(work.conn, work.table.heap, registered.key_type)
    if not registered.premake or not partitions:
        return PremakePlan()
    grid = read_grid(work.conn, work.table.seam, partitions, seen.cut.t, registered.partition_width)
    return plan_premake(grid, registered.premake)


def _plan_retention(work: TierRun, seen: TableObservation, tier: TierPlan) -> NextRetentionLine:
    """The next retention line, once the planned partitions left the heap; none in a cycle that moves partitions."""
    if tier.move:
        return NextRetentionLine()
    leaving = {(partition.lo, partition.hi) for partition in tier.drop}
    line, jump = read_next_retention_line(work.conn, work.table.registered, seen.cut, leaving)
    return NextRetentionLine(line=line, jump=jump)
