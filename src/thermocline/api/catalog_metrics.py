"""Metrics that are read from the catalog at each scrape: pins, drift between the tiers, the health of every lake.

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

from thermocline.catalog.maintenance.lake_stats import Noted, read_newest
from thermocline.catalog.pins import Pin, read_pins, read_swept
from thermocline.catalog.verified_ranges import Drift, read_drift
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format
from thermocline.core.policy.iceberg_format import all_formats
from thermocline.errors import PostgresUnreachable
from thermocline.maintain.format.plugins import load_formats
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogState:
    """What one scrape read from the catalog."""

    now: datetime
    pins: tuple[Pin, ...]
    deleted_pins: dict[TableName, int]
    drifts: tuple[Drift, ...]
    lake_stats: tuple[Noted, ...]

    def oldest_pins(self) -> dict[TableName, float]:
        """The age in seconds of each table's oldest pin."""
        ages: dict[TableName, float] = {}
        for pin in self.pins:
            ages[pin.table] = max(ages.get(pin.table, 0.0), (self.now - pin.pinned_at).total_seconds())
        return ages


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogMetric:
    """A metric with a value for each table."""

    name: str
    help: str
    values: Callable[[CatalogState], Iterable[tuple[object, float]]]
    is_counter: bool = False

    def render(self, state: CatalogState) -> Metric:
        family_type = CounterMetricFamily if self.is_counter else GaugeMetricFamily
        family = family_type(self.name, self.help, labels=["table"])
        for table, value in self.values(state):
            family.add_metric([str(table)], value)
        return family


METRICS: tuple[CatalogMetric, ...] = (
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
    )


def catalog_registry(settings: Settings) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CatalogCollector(settings.dsn))
    return registry
