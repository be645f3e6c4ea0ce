"""Observe a table and plan its moves, for a cycle and for previews. Loads no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thermocline.catalog import journal
from thermocline.core.modes.table_settings import TableSettings
from thermocline.core.observation import CutLine, PartitionObservation, TableObservation
from thermocline.core.plan.jumps import Jump, render_cutline_jump
from thermocline.core.plan.tier import TierPlan, limit_to_adopted, plan_tiering
from thermocline.ops.spanning_table import SpanningTable
from thermocline.ops.tier.jumps import read_jump
from thermocline.runtime.pg import Connection
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.partitions import (
    apply_discovery,
    read_now,
    read_partition_observations,
    read_passed,
    read_reclaimable,
)
from thermocline.seam.objects import SeamDefinition


def plan_moves(conn: Connection, table: SpanningTable) -> tuple[TableObservation, TierPlan]:
    """What moves and what is dropped, whoever asks for it."""
    seen = observe(conn, table)
    return seen, limit_to_adopted(table.registered.lake_until, plan_tiering(seen), seen.cut.t)


def observe(conn: Connection, table: SpanningTable) -> TableObservation:
    """The table as it stands: its partitions (new ones recorded) and its cut-line."""
    registered = table.registered
    partitions = read_partitions(conn, table.heap, registered.key_type)
    states = apply_discovery(conn, registered.id, partitions)
    cut = journal.read_cutline(conn, registered.id)
    found = read_partition_observations(conn, partitions, states, cut.t)
    jump = read_jump(conn, table, found, cut)
    seen = observe_partitions(conn, table.seam, found, cut, jump, registered.settings)
    lag, ceiling = registered.reclaim_lag, seen.ceiling
    return replace(seen, partitions=read_reclaimable(conn, table.seam, seen.partitions, lag, ceiling))


def observe_partitions(
    conn: Connection,
    seam: SeamDefinition,
    partitions: Sequence[PartitionObservation],
    cut: CutLine,
    jump: Jump | None,
    settings: TableSettings,
) -> TableObservation:
    """What tiering is planned on: the heap's partitions against its rows, the clock and the lags."""
    name, ceiling = seam.objects.heap, None if jump is None else jump.to
    return TableObservation(
        table=name,
        key_type=seam.key_type,
        cut=cut,
        partitions=read_passed(conn, seam, partitions, settings.tiering_lag, ceiling),
        mode=seam.mode,
        now=read_now(conn, seam.key_type),
        tiering_lag=settings.tiering_lag,
        reclaim_lag=settings.reclaim_lag,
        waits=() if jump is None else (render_cutline_jump(seam.key_type, str(name), jump),),
        ceiling=ceiling,
    )
