"""Iceberg tables of the configured catalog, as the first of the formats.

Engines and operations are imported where they are used: who looks at a table's health needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from thermocline.catalog.maintenance.lake_stats import StatsRow, read_orphan_estimate, read_published
from thermocline.core.maintenance.health import Trend, find_warnings, measure, small_limit_bytes
from thermocline.core.maintenance.outcome import Operation
from thermocline.core.messages.nearest import render_nearest
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.policy import Policy
from thermocline.errors import LakeTableMissing
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.read.health_facts import read_health_facts, read_small_files
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.context import PassContext
from thermocline.maintain.format.formats import FormatHealth, Located, Target
from thermocline.runtime.pg import Connection

if TYPE_CHECKING:
    from thermocline.maintain.engines.engine import MaintenanceEngine
    from thermocline.maintain.plans.planning import Planned, PlanRequest


class IcebergTables:
    """Iceberg tables: the lake catalog locates them, Spark rewrites them, PyIceberg reads their metadata."""

    @property
    def format(self) -> Format:
        return ICEBERG

    def locate(self, conn: Connection, name: TableName) -> Located:
        location = lake_catalog().read_metadata_location(conn, name)
        if location is None:
            known = [str(table) for table in lake_catalog().read_all_metadata_locations(conn) if table.is_ours]
            raise LakeTableMissing(
                f"There is no Iceberg table {name} in the catalog.",
                hint=render_nearest(str(name), known, otherwise="Check the namespace and the spelling."),
            )
        metadata = read_lake_table(location).metadata
        return Located(location=location, snapshot=metadata.current_snapshot_id, properties=metadata.properties)

    def engine(self, name: str) -> MaintenanceEngine:
        from thermocline.maintain.engines.named import engine_named

        return engine_named(name)

    def plan(self, request: PlanRequest, engine: str) -> Planned:
        from thermocline.maintain.engines.procedures import ProceduresEngine, plan_procedure
        from thermocline.maintain.operations.registry import plan_operation

        return plan_procedure(request) if engine == ProceduresEngine().name else plan_operation(request)

    def why_not_yet(
        self, operation: Operation, context: PassContext, last_done: Callable[[], datetime | None]
    ) -> str | None:
        """Manifests are rewritten once per interval where the policy has one."""
        interval = context.policy.manifest_rewrite_interval_ms
        if operation != "rewrite_manifests" or not interval or (last := last_done()) is None:
            return None
        due = last + timedelta(milliseconds=interval)
        return (
            f"manifests were rewritten {last:%Y-%m-%d %H:%M}, next from {due:%Y-%m-%d %H:%M} UTC"
            if due > context.now
            else None
        )

    def measure_health(self, conn: Connection, target: Target, policy: Policy, before: StatsRow | None) -> FormatHealth:
        registered = target.target.registered
        published = read_published(conn, registered.id) if registered is not None else None
        facts = read_health_facts(
            target.metadata_location,
            key_column=registered.tier_key if registered is not None else None,
            published=published,
        )
        trend = _trend(target.metadata_location, policy, before)
        health = measure(facts, policy, orphan_estimate=read_orphan_estimate(conn, target.owner), trend=trend)
        return FormatHealth(
            figures={**asdict(health), "size_histogram": list(health.size_histogram)},
            warnings={warning.key: warning.sentence for warning in find_warnings(health, facts)},
        )


def _trend(location: str, policy: Policy, before: StatsRow | None) -> Trend | None:
    """Which small files were added and removed since the last measurement."""
    if before is None or before.metadata_location is None:
        return None
    limit = small_limit_bytes(policy)
    were, are = read_small_files(before.metadata_location, limit), read_small_files(location, limit)
    if were is None or are is None:
        return None
    return Trend(
        created=len(are - were), removed=len(were - are), seconds=(datetime.now(UTC) - before.at).total_seconds()
    )
