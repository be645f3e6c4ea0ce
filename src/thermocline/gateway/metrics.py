"""Prometheus metrics of the gateway."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

QUERIES = Counter("thermocline_gateway_queries", "Statements answered, by outcome.", ["outcome"])
QUERY_SECONDS = Histogram(
    "thermocline_gateway_query_seconds",
    "Time from a statement's arrival to its last row.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
FILES_SCANNED = Counter("thermocline_gateway_files_scanned", "Lake files read.")
FILES_SKIPPED = Counter("thermocline_gateway_files_skipped", "Lake files left out by their bounds.")
BYTES_SKIPPED = Counter("thermocline_gateway_bytes_skipped", "Sizes of the lake files left out by their bounds.")
BYTES_READ = Counter("thermocline_gateway_bytes_read", "Sizes of the lake files read.")
BYTES_SENT = Counter("thermocline_gateway_bytes_sent", "Bytes of rows sent to clients.")
ROWS_SENT = Counter("thermocline_gateway_rows_sent", "Rows sent to clients.")
POSTGRES_EVALUATED = Counter(
    "thermocline_gateway_postgres_evaluated", "Statements whose expressions were evaluated by Postgres."
)
WHOLE_QUERIES = Counter(
    "thermocline_gateway_whole_queries", "Statements over spanning tables, by the engine that answered.", ["engine"]
)
ANALYSES = Counter(
    "thermocline_gateway_analyses",
    "Statements given to Postgres to analyse, by outcome; cached ones were known already.",
    ["outcome"],
)
EXECUTORS = Gauge("thermocline_gateway_executors", "Executor processes that run or are ready to run statements.")
EXECUTOR_CRASHES = Counter(
    "thermocline_gateway_executor_crashes",
    "Executor processes that ended by themselves, such as by a segmentation fault.",
)
CONNECTIONS = Gauge("thermocline_gateway_connections", "Open client connections.")


class RecentLatency(Collector):
    """Quantiles of the latest statements, readable without a Prometheus query."""

    def __init__(self, remembered: int = 2048) -> None:
        self._seconds: deque[float] = deque(maxlen=remembered)

    def observe(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def quantiles(self) -> dict[str, float]:
        """p50, p95 and p99 of the statements remembered; none before the first one."""
        ordered = sorted(self._seconds)
        return (
            {f"{share:g}": ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 0.99)} if ordered else {}
        )

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "thermocline_gateway_latency_seconds", "Quantiles of the last 2,048 statements.", labels=["quantile"]
        )
        for quantile, seconds in self.quantiles().items():
            family.add_metric([quantile], seconds)
        yield family


LATENCY = RecentLatency()
REGISTRY.register(LATENCY)
