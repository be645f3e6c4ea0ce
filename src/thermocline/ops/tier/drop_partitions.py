"""Drop tiered partitions from the heap, once no reader needs them there."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from thermocline.catalog import tables
from thermocline.core.observation import PartitionObservation
from thermocline.errors import TryAgainError
from thermocline.ops.admin.pins import why_pinned
from thermocline.ops.tier.tier_run import TierRun
from thermocline.runtime.fault_points import fault_point
from thermocline.seam.heap.older_readers import why_not_drop
from thermocline.seam.heap.partitions import apply_drop


def drop_partitions(work: TierRun, partitions: Sequence[PartitionObservation]) -> None:
    """A partition that somebody may still read, or that is locked, stays until a later cycle."""
    registered, report = work.table.registered, work.report
    for partition in partitions:
        if reason := work.why_not_drop_now():
            report.deferred.append(reason)
            return
        # Pins last: whoever read T under a snapshot that is over by now has committed the pin.
        reason = why_not_drop(work.conn, registered.id, partition.oid, work.settings.standby_grace_seconds)
        if reason := reason or why_pinned(work.conn, registered.id, partition, work.settings.lock_timeout_ms):
            report.deferred.append(f"{partition.name} stays in the heap for now: {reason}")
            continue
        try:
            apply_drop(
                work.conn, registered.name, registered.heap_oid, registered.id, partition, work.settings.lock_timeout_ms
            )
        except (TryAgainError, psycopg.errors.DependentObjectsStillExist) as problem:
            report.deferred.append(
                f"{partition.name}: data is safe; DROP retries next cycle ({str(problem).splitlines()[0]})"
            )
            continue
        fault_point("dropped")
        tables.insert_event(work.conn, registered.id, "drop", f"{registered.name}: {partition.name} left the heap.")
        report.dropped.append(str(partition.name))
