"""Make the partitions of a cycle's plan above the newest row."""

from __future__ import annotations

from thermocline.catalog import tables
from thermocline.core.plan.cycle import CyclePlan
from thermocline.errors import LockNotGranted
from thermocline.ops.tier.tier_run import TierRun
from thermocline.runtime.fault_points import fault_point
from thermocline.seam.heap.premake import REFUSED_BY_TRIGGERS, apply_premake


def make_partitions(work: TierRun, plan: CyclePlan) -> None:
    """A partition that cannot be made now is put off to a later cycle; tiering goes on."""
    registered, report = work.table.registered, work.report
    report.notes += plan.premake.notes
    for new in plan.premake.make:
        schema = plan.seen.partitions[-1].name.schema
        try:
            name, rows = apply_premake(work.conn, work.table.seam, new, schema, work.settings.lock_timeout_ms)
        except (LockNotGranted, *REFUSED_BY_TRIGGERS) as problem:
            report.deferred.append(
                f"partition {new.name} is made in a later cycle ({str(problem).splitlines()[0].rstrip('.')})"
            )
            break
        fault_point("premade")
        report.made.append(str(name))
        carried = f" and {rows:,} rows moved into it from the spill" if rows else ""
        tables.insert_event(work.conn, registered.id, "premake", f"{registered.name}: {name} was made ahead{carried}.")
