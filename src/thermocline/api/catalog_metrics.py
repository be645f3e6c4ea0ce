"""Metrics that are read from the catalog at each scrape: cycles, ops, waiting corrections, pins, drift, lakes.

Workers come and go and there may be many gateways; what they recorded in Postgres is the same for all, so the process
that serves HTTP exports it. A new metric is one entry of `METRICS`; a lake format declares its health figures itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import psycopg
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from psycopg.rows import scalar_row

from thermocline.catalog.health.totals import (
    OpTotal,
    PartitionTotal,
    TableTotal,
    read_op_totals,
    read_partition_totals,
    read_table_totals,
)
from thermocline.catalog.health.workers import read_workers
from thermocline.catalog.maintenance.lake_stats import Noted, read_newest
from thermocline.catalog.pins import Pin, read_pins, read_swept
from thermocline.catalog.verified_ranges import Drift, read_drift
from thermocline.core.health.health_observation import WorkerSeen
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format
from thermocline.core.policy.iceberg_format import all_formats
from thermocline.errors import PostgresUnreachable
from thermocline.maintain.format.plugins import load_formats
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.settings import Settings

_ALIVE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogState:
    """What one scrape read from the catalog."""

    now: datetime
    pins: tuple[Pin, ...]
    deleted_pins: dict[TableName, int]
    drifts: tuple[Drift, ...]
    lake_stats: tuple[Noted, ...]
    workers: tuple[WorkerSeen, ...]
    tables: tuple[TableTotal, ...]
    ops: tuple[OpTotal, ...]
    partitions: tuple[PartitionTotal, ...]

    @property
    def alive_workers(self) -> tuple[WorkerSeen, ...]:
        return tuple(w for w in self.workers if (self.now - w.seen_at).total_seconds() <= _ALIVE_SECONDS)

    def oldest_pins(self) -> dict[TableName, float]:
        """The age in seconds of each table's oldest pin."""
        ages: dict[TableName, float] = {}
        for pin in self.pins:
            ages[pin.table] = max(ages.get(pin.table, 0.0), (self.now - pin.pinned_at).total_seconds())
        return ages


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogMetric:
    """A metric with a value for each table, or for each combination of its labels; without labels for the whole."""

    name: str
    help: str
    values: Callable[[CatalogState], Iterable[tuple[object, float]]]
    is_counter: bool = False
    labels: tuple[str, ...] = ("table",)

    def render(self, state: CatalogState) -> Metric:
        family_type = CounterMetricFamily if self.is_counter else GaugeMetricFamily
        family = family_type(self.name, self.help, labels=self.labels)
        for key, value in self.values(state):
            family.add_metric([str(label) for label in (key if isinstance(key, tuple) else (key,))], value)
        return family


_KINDS = ("table", "kind")

METRICS: tuple[CatalogMetric, ...] = (
    CatalogMetric(
        name="thermocline_workers",
        help="Workers with a heartbeat in the last 30 seconds.",
        values=lambda state: [((), len(state.alive_workers))],
        labels=(),
    ),
    CatalogMetric(
        name="thermocline_last_cycle_timestamp_seconds",
        help="When a worker last finished a cycle over all tables.",
        values=lambda state: [((), max(finished)) for finished in [_finished(state)] if finished],
        labels=(),
    ),
    CatalogMetric(
        name="thermocline_cycle_duration_seconds",
        help="How long the last finished cycle of a live worker took, the longest of them.",
        values=lambda state: [
            ((), max(took)) for took in [[w.cycle_seconds for w in state.alive_workers if w.cycle_seconds]] if took
        ],
        labels=(),
    ),
    CatalogMetric(
        name="thermocline_cycles",
        help="Cycles of a table, by outcome.",
        values=lambda state: [
            item
            for table in state.tables
            for item in (((table.table, "finished"), table.finished), ((table.table, "failed"), table.failed))
        ],
        is_counter=True,
        labels=("table", "outcome"),
    ),
    CatalogMetric(
        name="thermocline_table_cycle_timestamp_seconds",
        help="When a cycle of the table last ended, well or not.",
        values=lambda state: [
            (table.table, table.cycle_at_seconds) for table in state.tables if table.cycle_at_seconds is not None
        ],
    ),
    CatalogMetric(
        name="thermocline_paused",
        help="1 while the table is paused.",
        values=lambda state: [(table.table, float(table.is_paused)) for table in state.tables],
    ),
    CatalogMetric(
        name="thermocline_cutline_tier_key",
        help="T, on the 64-bit axis: microseconds or days since 1970, or the number itself.",
        values=lambda state: [(table.table, table.t) for table in state.tables],
    ),
    CatalogMetric(
        name="thermocline_cutline_snapshot",
        help="S, the published snapshot; as a float, so its last digits are rounded.",
        values=lambda state: [(table.table, table.snapshot) for table in state.tables if table.snapshot is not None],
    ),
    CatalogMetric(
        name="thermocline_partitions",
        help="Partitions, by state.",
        values=lambda state: [((total.table, total.state), total.partitions) for total in state.partitions],
        labels=("table", "state"),
    ),
    CatalogMetric(
        name="thermocline_delta_backlog_rows",
        help="Corrections below the cut-line that wait to be folded, as the last cycle counted them.",
        values=lambda state: [
            (table.table, table.waiting_rows) for table in state.tables if table.waiting_rows is not None
        ],
    ),
    CatalogMetric(
        name="thermocline_delta_oldest_seconds",
        help="For how long some correction is known to wait; 0 while none waits.",
        values=lambda state: [
            (table.table, table.waiting_seconds or 0.0) for table in state.tables if table.waiting_rows is not None
        ],
    ),
    CatalogMetric(
        name="thermocline_lake_commits",
        help="Ops that were published, by kind: tier, fold, retain, and the operations of maintenance.",
        values=lambda state: [((total.table, total.kind), total.published) for total in state.ops],
        is_counter=True,
        labels=_KINDS,
    ),
    CatalogMetric(
        name="thermocline_ops_abandoned",
        help="Ops that were given up, by kind; their process died or their commit was refused.",
        values=lambda state: [((total.table, total.kind), total.abandoned) for total in state.ops],
        is_counter=True,
        labels=_KINDS,
    ),
    CatalogMetric(
        name="thermocline_moved_rows",
        help="Rows that published ops wrote to the lake, by kind.",
        values=lambda state: [((total.table, total.kind), total.rows) for total in state.ops],
        is_counter=True,
        labels=_KINDS,
    ),
    CatalogMetric(
        name="thermocline_moved_bytes",
        help="Bytes that published ops wrote to the lake, by kind.",
        values=lambda state: [((total.table, total.kind), total.bytes) for total in state.ops],
        is_counter=True,
        labels=_KINDS,
    ),
    CatalogMetric(
        name="thermocline_pins",
        help="Living pins of readers outside Postgres.",
        values=lambda state: [
            (table, sum(pin.table == table for pin in state.pins))
            for table in dict.fromkeys(pin.table for pin in state.pins)
        ],
    ),
    CatalogMetric(
        name="thermocline_oldest_pin_seconds",
        help="Age of the oldest living pin.",
        values=lambda state: state.oldest_pins().items(),
    ),
    CatalogMetric(
        name="thermocline_expired_pins_deleted",
        help="Expired pins that were deleted.",
        values=lambda state: state.deleted_pins.items(),
        is_counter=True,
    ),
    CatalogMetric(
        name="thermocline_verify_drift_rows",
        help="Rows that differ between the tiers, as last compared.",
        values=lambda state: [(drift.table, drift.rows) for drift in state.drifts],
    ),
    CatalogMetric(
        name="thermocline_verify_failed_ranges",
        help="Ranges that did not agree when last compared.",
        values=lambda state: [(drift.table, drift.failed_ranges) for drift in state.drifts],
    ),
    CatalogMetric(
        name="thermocline_verify_last_range_timestamp_seconds",
        help="When a range was last compared in the background.",
        values=lambda state: [(drift.table, drift.last_at_seconds) for drift in state.drifts],
    ),
    CatalogMetric(
        name="thermocline_lake_warnings",
        help="Warnings that hold for the lake of a table.",
        values=lambda state: [(stats.table, stats.warnings) for stats in state.lake_stats],
    ),
)


def list_metrics(formats: Iterable[Format]) -> tuple[CatalogMetric, ...]:
    """Every metric of the catalog, those that these lake formats declare included."""
    declared = {name: help for format in formats for name, help in format.health.items()}
    return (*METRICS, *(_health_metric(name, help) for name, help in declared.items()))


def _health_metric(name: str, help: str) -> CatalogMetric:
    def values(state: CatalogState) -> Iterator[tuple[str, float]]:
        for stats in state.lake_stats:
            if isinstance(value := stats.stats.get(name), int | float):
                yield stats.table, value

    return CatalogMetric(name=f"thermocline_lake_{name}", help=help, values=values)


def _finished(state: CatalogState) -> list[float]:
    return [worker.cycle_finished_at.timestamp() for worker in state.workers if worker.cycle_finished_at]


class CatalogCollector(Collector):
    """Reads the catalog at each scrape; without a catalog, or without Postgres, it exports nothing."""

    def __init__(self, dsn: str | None) -> None:
        self._dsn = dsn

    def collect(self) -> Iterator[Metric]:
        if self._dsn is None:
            return
        try:
            with connect(self._dsn, autocommit=True, application_name="thermocline metrics") as conn:
                state = read_state(conn)
        except (PostgresUnreachable, psycopg.Error):
            return
        load_formats()
        yield from (metric.render(state) for metric in list_metrics(all_formats()))


def read_state(conn: Connection) -> CatalogState:
    """Everything that the metrics need, in one connection."""
    now = conn.cursor(row_factory=scalar_row).execute("select clock_timestamp()").fetchone()
    assert now is not None
    return CatalogState(
        now=now,
        pins=read_pins(conn),
        deleted_pins=read_swept(conn),
        drifts=read_drift(conn),
        lake_stats=read_newest(conn),
        workers=read_workers(conn),
        tables=read_table_totals(conn),
        ops=read_op_totals(conn),
        partitions=read_partition_totals(conn),
    )


def catalog_registry(settings: Settings) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CatalogCollector(settings.dsn))
    return registry
