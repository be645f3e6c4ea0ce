"""Figures that lie in the catalog, read when Prometheus asks: pins, how far the tiers were found apart, the health of
every lake.

Workers come and go and gateways are many; what they noted in Postgres is one truth, so it is exported from there, by
whoever serves HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from thermocline.catalog.maintenance.lake_stats import read_newest
from thermocline.catalog.pins import read_pins, read_swept
from thermocline.catalog.verified_ranges import read_drift
from thermocline.core.policy.iceberg_format import all_formats
from thermocline.errors import PostgresUnreachable
from thermocline.maintain.plugins import load_formats
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.settings import Settings


class CatalogCollector(Collector):
    """Reads the catalog at each scrape; without a catalog, or without Postgres, there is nothing to tell."""

    def __init__(self, dsn: str | None) -> None:
        self._dsn = dsn

    def collect(self) -> Iterator[Metric]:
        if self._dsn is None:
            return
        try:
            with connect(self._dsn, autocommit=True, application_name="thermocline metrics") as conn:
                yield from (*_pins(conn), *_drift(conn), *_health(conn))
        except (PostgresUnreachable, psycopg.Error):
            return


def catalog_registry(settings: Settings) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(CatalogCollector(settings.dsn))
    return registry


def _pins(conn: Connection) -> Iterator[Metric]:
    held = GaugeMetricFamily("thermocline_pins", "Living pins of readers outside Postgres.", labels=["table"])
    oldest = GaugeMetricFamily("thermocline_oldest_pin_seconds", "Age of the oldest living pin.", labels=["table"])
    swept = CounterMetricFamily(
        "thermocline_expired_pins_deleted", "Pins that were found dead and removed.", labels=["table"]
    )
    row = conn.execute("select clock_timestamp()").fetchone()
    assert row is not None
    pins = read_pins(conn)
    for table in dict.fromkeys(pin.table for pin in pins):
        ages = [(row[0] - pin.pinned_at).total_seconds() for pin in pins if pin.table == table]
        held.add_metric([str(table)], len(ages))
        oldest.add_metric([str(table)], max(ages))
    for table, count in read_swept(conn).items():
        swept.add_metric([str(table)], count)
    yield from (held, oldest, swept)


def _drift(conn: Connection) -> Iterator[Metric]:
    rows = GaugeMetricFamily(
        "thermocline_verify_drift_rows", "Rows that differ between the tiers, as last compared.", labels=["table"]
    )
    failed = GaugeMetricFamily(
        "thermocline_verify_failed_ranges", "Ranges that did not agree when last compared.", labels=["table"]
    )
    last = GaugeMetricFamily(
        "thermocline_verify_last_range_timestamp_seconds",
        "When a range was compared in the background last.",
        labels=["table"],
    )
    for drift in read_drift(conn):
        rows.add_metric([str(drift.table)], drift.rows)
        failed.add_metric([str(drift.table)], drift.failed_ranges)
        last.add_metric([str(drift.table)], drift.last_at_seconds)
    yield from (rows, failed, last)


def _health(conn: Connection) -> Iterator[Metric]:
    """Every figure that some table's format declares, as it was last noted."""
    load_formats()
    newest = read_newest(conn)
    warned = GaugeMetricFamily(
        "thermocline_lake_warnings", "Warnings that hold for the lake of a table.", labels=["table"]
    )
    for noted in newest:
        warned.add_metric([noted.table], noted.warnings)
    yield warned
    meanings = {name: told for format in all_formats() for name, told in format.health.items()}
    for name, told in meanings.items():
        gauge = GaugeMetricFamily(f"thermocline_lake_{name}", told, labels=["table"])
        for noted in newest:
            value = noted.stats.get(name)
            if isinstance(value, int | float):
                gauge.add_metric([noted.table], value)
        yield gauge
