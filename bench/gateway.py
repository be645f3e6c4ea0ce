"""The gateway: a point look-up in lakes of 100 and of 10,000 files, rows streamed over one connection, and whole
aggregates.

The gateway runs in a process of its own, as it does in use; times are those of a client on the same machine, statement
sent to last row.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg.conninfo import make_conninfo
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from bench import gateway_whole
from bench.figures import Figure, compare, within
from bench.gateway_whole import gateway_process
from thermocline.catalog.migrate import apply_migrations
from thermocline.gateway.wire.scram import make_verifier
from thermocline.runtime.postgres_server import PostgresServer, free_port

PASSWORD = "bench"
LOOK_UPS = 300
ROWS_PER_SMALL_FILE = 200
STREAMED_ROWS = int(os.environ.get("BENCH_GATEWAY_ROWS", "4000000"))
RUNS = 3
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "kind", StringType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "shop", IntegerType(), required=False),
)


class _OneTableCatalog(NoopCatalog):
    """Commits by writing the next metadata file."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        metadata = update_table_metadata(table.metadata, updates)
        location = f"{metadata.location}/metadata/{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


def run() -> Sequence[Figure]:
    directory = Path(tempfile.mkdtemp(prefix="bench-gateway-"))
    directory.chmod(0o755)
    server = PostgresServer(
        directory / "pg", free_port(), {"shared_buffers": "256MB", "fsync": "off"}, password=PASSWORD
    )
    server.init()
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            apply_migrations(conn)
            conn.execute("insert into thermocline.gateway_logins values ('postgres', %s)", (make_verifier(PASSWORD),))
            snapshots = {name: _make_lake(conn, directory / name, name, *shape) for name, shape in _LAKES.items()}
        with _gateway(server.dsn()) as dsn:
            figures = [*_measure_look_ups(dsn, snapshots), _measure_stream(dsn, snapshots["streamed"])]
    finally:
        server.stop("immediate")
        server.remove()
        shutil.rmtree(directory, ignore_errors=True)
    return [*figures, *gateway_whole.run()]


_LAKES = {
    "hundred": (100, ROWS_PER_SMALL_FILE),
    "ten_thousand": (10_000, ROWS_PER_SMALL_FILE),
    "streamed": (4, STREAMED_ROWS // 4),
}


def _make_lake(conn: psycopg.Connection[Any], directory: Path, name: str, files: int, rows: int) -> int:
    """A lake table of so many files, each with the next ids, in one snapshot; returns its id."""
    print(f"bench: writing {files} files of {rows} rows", file=sys.stderr, flush=True)
    (directory / "data").mkdir(parents=True)
    metadata = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, f"file://{directory}")
    location = f"file://{directory}/metadata/{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
    table = Table(("public", name), metadata, location, PyArrowFileIO(), _OneTableCatalog("bench"))
    with table.transaction() as change, change.update_snapshot().fast_append() as snapshot:
        for number in range(files):
            snapshot.append_data_file(_write_file(directory / "data" / f"{number}.parquet", number * rows, rows))
    current = table.current_snapshot()
    if current is None:
        raise AssertionError("the append made no snapshot")
    conn.execute(
        "insert into thermocline.tables (schema_name, table_name, heap_oid, mode, pk, tier_key, key_type, "
        "lake_partition,"
        " lake_namespace, lake_name, lake_uuid, lake_location, seam_schema, object_name, spill_schema, spill_name)"
        " values ('public', %(n)s, 0, 'tiered', '{id}', 'id', 'bigint', '', 'public', %(n)s, %(u)s, %(l)s, "
        "'public_all', %(n)s, '', '')",
        {"n": name, "u": metadata.table_uuid, "l": str(directory)},
    )
    conn.execute(
        "insert into thermocline_iceberg.iceberg_tables (catalog_name, table_namespace, table_name, "
        "metadata_location, iceberg_type)"
        " values ('thermocline', 'public', %s, %s, 'TABLE')",
        (name, table.metadata_location),
    )
    conn.execute(
        "insert into thermocline.published (table_id, snapshot_id)"
        " select id, %s from thermocline.tables where lake_name = %s",
        (current.snapshot_id, name),
    )
    return current.snapshot_id


def _write_file(path: Path, first: int, count: int) -> DataFile:
    ids = np.arange(first, first + count)
    columns = [
        pa.array(ids),
        pa.array(ids * 1_000_000, pa.timestamp("us", "UTC")),
        pa.array(np.array(["click", "view", "buy", "refund"])[ids % 4]),
        pa.array(ids / 8),
        pa.array((ids % 1000).astype(np.int32)),
    ]
    pq.write_table(
        pa.table(columns, schema=schema_to_pyarrow(SCHEMA, include_field_ids=True)), path, compression="zstd"
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=count,
        file_size_in_bytes=path.stat().st_size,
        null_value_counts=dict.fromkeys(range(1, 6), 0),
        lower_bounds={1: first.to_bytes(8, "little")},
        upper_bounds={1: (first + count - 1).to_bytes(8, "little")},
        spec_id=0,
    )


@contextmanager
def _gateway(dsn: str) -> Iterator[str]:
    """A gateway process, and how to reach it."""
    port = free_port()
    with gateway_process(dsn, port):
        yield make_conninfo(host="127.0.0.1", port=port, user="postgres", password=PASSWORD, dbname="lake")


def _measure_look_ups(dsn: str, snapshots: dict[str, int]) -> list[Figure]:
    figures = []
    for name, label in (("hundred", "100"), ("ten_thousand", "10,000")):
        times = _look_ups(dsn, name, snapshots[name], _LAKES[name][0] * ROWS_PER_SMALL_FILE)
        figures.append(within(f"gateway look-up by key, {label} files, p50", statistics.median(times) * 1000, 15, "ms"))
        figures.append(
            within(
                f"gateway look-up by key, {label} files, p95", statistics.quantiles(times, n=20)[18] * 1000, 50, "ms"
            )
        )
    return figures


def _look_ups(dsn: str, name: str, snapshot: int, rows: int) -> list[float]:
    chance = random.Random(7)
    query = f"select id, ts, kind, amount, shop from public.{name} where _snapshot = %s and id = %s"
    times = []
    with psycopg.connect(dsn, autocommit=True) as conn:
        for number in range(LOOK_UPS + 10):
            wanted = chance.randrange(rows)
            begun = time.perf_counter()
            row = conn.execute(query, (snapshot, wanted)).fetchone()
            if number >= 10:
                times.append(time.perf_counter() - begun)
            if row is None or row[0] != wanted:
                raise AssertionError(f"looked up {wanted}, found {row}")
    return times


def _measure_stream(dsn: str, snapshot: int) -> Figure:
    rates = []
    with psycopg.connect(dsn, autocommit=True) as conn:
        for _ in range(RUNS):
            begun = time.perf_counter()
            result = conn.pgconn.exec_params(
                b"select id, ts, kind, amount, shop from public.streamed where _snapshot = %d" % snapshot, []
            )
            if result.ntuples != STREAMED_ROWS:
                raise AssertionError(f"{result.ntuples} rows of {STREAMED_ROWS}: {result.error_message!r}")
            rates.append(STREAMED_ROWS / (time.perf_counter() - begun) / 1e6)
    return compare("gateway rows streamed, 5 narrow columns", rates, "the design's floor", [0.8], "M rows/s", 1.0)
