"""What the gateway counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

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
POSTGRES_EVALUATED = Counter("thermocline_gateway_postgres_evaluated", "Statements whose expressions were evaluated by Postgres.")
WHOLE_QUERIES = Counter("thermocline_gateway_whole_queries", "Statements over spanning tables, by the engine that answered.", ["engine"])
CONNECTIONS = Gauge("thermocline_gateway_connections", "Open client connections.")
