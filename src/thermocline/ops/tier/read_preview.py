"""The preview of a tiering plan: the rows of the partitions that it moves, counted where that is cheap."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from thermocline.core.modes.table_settings import TableSettings
from thermocline.core.observation import CutLine, PartitionObservation, PartitionState, TableObservation
from thermocline.core.plan.jumps import plan_cutline_jump
from thermocline.core.plan.preview import RowCount, TierPreview, plan_preview
from thermocline.core.plan.tier import TierPlan, limit_to_adopted, plan_tiering
from thermocline.ops.spanning_table import SpanningTable
from thermocline.ops.tier.observe_table import observe_partitions, plan_moves
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.seam.heap.facts import HeapPartition
from thermocline.seam.heap.partitions import read_partition_observations
from thermocline.seam.objects import SeamDefinition

_COUNTED_BYTES = 8 << 20
"""Larger partitions are estimated as the planner does it."""


def preview_registered(conn: Connection, table: SpanningTable) -> TierPreview:
    """What the next cycle of a registered table would move."""
    with conn.transaction(force_rollback=True):  # only a look: no partition is discovered by it
        seen, plan = plan_moves(conn, table)
    # Counting takes its time, and the look has locked the catalog's rows of the partitions.
    return read_preview(conn, seen, plan)


def preview_heap(
    conn: Connection,
    seam: SeamDefinition,
    found: Sequence[HeapPartition],
    cut: CutLine,
    settings: TableSettings,
    lake_until: int | None,
) -> TierPreview:
    """What the first cycle would move, of a table that is not registered yet: every partition is hot, and no row lies
    beyond the last one."""
    hot: dict[int, PartitionState] = {partition.oid: "hot" for partition in found}
    partitions = read_partition_observations(conn, found, hot, cut.t)
    is_first = cut.s is None or lake_until is not None
    jump = plan_cutline_jump(seam.key_type, partitions, cut.t, is_first=is_first, beyond=None, accepted=None)
    seen = observe_partitions(conn, seam, partitions, cut, jump, settings)
    return read_preview(conn, seen, limit_to_adopted(lake_until, plan_tiering(seen), cut.t))


def read_preview(conn: Connection, seen: TableObservation, plan: TierPlan) -> TierPreview:
    return plan_preview(seen, plan, {partition.oid: _count_rows(conn, partition) for partition in plan.move})


def _count_rows(conn: Connection, partition: PartitionObservation) -> RowCount:
    name = table_identifier(partition.name)
    if partition.size_bytes <= _COUNTED_BYTES:
        row = conn.execute(sql.SQL("select count(*) from only {}").format(name)).fetchone()
        assert row is not None
        return RowCount(rows=int(row[0]))
    row = conn.execute(sql.SQL("explain (format json) select from only {}").format(name)).fetchone()
    assert row is not None
    return RowCount(rows=int(row[0][0]["Plan"]["Plan Rows"]), is_estimate=True)
