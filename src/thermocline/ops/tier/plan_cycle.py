"""Observe a table, and plan one tiering cycle of it."""

from __future__ import annotations

from thermocline.catalog import journal
from thermocline.core.observation import TableObservation
from thermocline.core.plan.cycle import CyclePlan, NextRetentionLine
from thermocline.core.plan.jumps import render_cutline_jump
from thermocline.core.plan.premake import PremakePlan, plan_premake
from thermocline.core.plan.tier import TierPlan, plan_tiering
from thermocline.ops.tier.adopted_lake import limit_to_adopted
from thermocline.ops.tier.jumps import read_jump, read_next_retention_line
from thermocline.ops.tier.tier_run import TierRun
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.partitions import apply_discovery, read_now, read_partition_observations, read_passed
from thermocline.seam.heap.premake import read_grid


def plan_cycle(work: TierRun) -> CyclePlan:
    """The whole cycle, on the table as it is now."""
    seen = observe(work)
    tier = limit_to_adopted(work.table.registered, plan_tiering(seen), seen.cut.t)
    return CyclePlan(
        seen=seen, premake=_plan_premake(work, seen), tier=tier, retention=_plan_retention(work, seen, tier)
    )


def observe(work: TierRun) -> TableObservation:
    """The table as it stands: its partitions (new ones recorded) and its cut-line."""
    conn, registered = work.conn, work.table.registered
    partitions = read_partitions(conn, work.table.heap, registered.key_type)
    states = apply_discovery(conn, registered.id, partitions)
    cut = journal.read_cutline(conn, registered.id)
    found = read_partition_observations(conn, partitions, states, cut.t)
    jump = read_jump(conn, work.table, found, cut)
    lags = (registered.tiering_lag, registered.reclaim_lag)
    return TableObservation(
        table=registered.name,
        key_type=registered.key_type,
        cut=cut,
        partitions=read_passed(conn, work.table.seam, found, lags, None if jump is None else jump.to),
        mode=registered.mode,
        now=read_now(conn, registered.key_type),
        tiering_lag=registered.tiering_lag,
        reclaim_lag=registered.reclaim_lag,
        waits=() if jump is None else (render_cutline_jump(registered.key_type, str(registered.name), jump),),
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
