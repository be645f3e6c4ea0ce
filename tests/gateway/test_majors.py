"""postgres_fdw of every supported Postgres major reads through the gateway: scans, cursors, parameters, joins, ANALYZE,
savepoints."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType
from tests.gateway.conftest import PASSWORD, connect_server

from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

MAJORS = ("14.20.0", "15.15.0", "16.11.0", "17.7.0", "18.1.0")
EVENTS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "ts", TimestamptzType(), required=False),
    NestedField(3, "note", StringType(), required=False),
)


@contextmanager
def _reader(version: str, port: int) -> Iterator[psycopg.Connection[Any]]:
    """A Postgres of that version whose foreign server is the gateway."""
    directory = Path(tempfile.mkdtemp(prefix="thermocline-major-"))
    directory.chmod(0o755)
    server = PostgresServer(directory / "pg", free_port(), FAST_TEST_SETTINGS, password=PASSWORD, version=version)
    server.init()
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create extension postgres_fdw")
            connect_server(conn, port)
            conn.execute("create schema thermocline_lake")
            yield conn
    finally:
        server.stop("immediate")
        server.remove()
        shutil.rmtree(directory)


@pytest.mark.conforms("O-099")
@pytest.mark.parametrize("version", MAJORS)
def test_postgres_fdw_of_each_major_reads_the_lake(site: Any, version: str) -> None:
    site.lake.create("events", EVENTS)
    site.lake.foreign_table("events", "id bigint, ts timestamptz, note text")
    count = 5000
    times = pa.array([number * 1_000_000 for number in range(count)], pa.timestamp("us", "UTC"))
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "ts": times,
            "note": [f"note {number % 7}" for number in range(count)],
        }
    )
    snapshot = site.lake.append("events", rows)
    with _reader(version, site.gateway.port) as conn:
        conn.execute(
            "create foreign table thermocline_lake.events (id bigint, ts timestamptz, note text, _snapshot bigint)"
            " server thermocline_gateway options (schema_name 'public', table_name 'events')"
        )
        conn.execute(
            "create table plain as select id, ts, note from thermocline_lake.events where _snapshot = %s", (snapshot,)
        )
        _compare(conn, snapshot)
        conn.execute("analyze thermocline_lake.events")
        seen = conn.execute("select reltuples from pg_class where oid = 'thermocline_lake.events'::regclass").fetchone()
        assert seen is not None
        assert 0.5 * count < seen[0] < 1.5 * count
        _compare(conn, snapshot)


QUERIES = (
    "select count(*), min(id), max(ts) from {}",
    "select * from {} where id = 4321",
    "select * from {} where ts < '1970-01-01 00:01:00+00' order by id",
    "select id from {} where note = 'note 3' order by id limit 10 offset 5",
    "select note, count(*), sum(id) from {} group by note order by note",
    "select upper(note), id % 3 from {} where length(note) = 6 and id < 20 order by id",
    "select a.id, b.note from {} a join {} b using (id) where a.id between 10 and 20 order by 1",
    "select * from {} where id in (1, 2, 3) or note is null order by id",
    "select * from {} where ts > now() order by id",
)


def _compare(conn: psycopg.Connection[Any], snapshot: int) -> None:
    lake = f"(select id, ts, note from thermocline_lake.events where _snapshot = {snapshot})"
    for query in QUERIES:
        expected = conn.execute(query.replace("{}", "plain")).fetchall()
        asked = query.replace("from {} ", f"from {lake} l ") if "join" not in query else query
        asked = asked.replace("{} a", f"{lake} a").replace("{} b", f"{lake} b").replace("{}", f"{lake} l")
        assert conn.execute(asked).fetchall() == expected, query
    conn.execute("set plan_cache_mode = force_generic_plan")
    conn.execute(
        "prepare one(bigint, bigint) as select note from thermocline_lake.events where id = $1 and _snapshot = $2"
    )
    assert conn.execute(f"execute one(8, {snapshot})").fetchall() == [("note 1",)]
    conn.execute("deallocate one; reset plan_cache_mode")
    query = "select count(*) from thermocline_lake.events where _snapshot = %s"
    with conn.transaction():
        assert conn.execute(query, (snapshot,)).fetchone() == (5000,)
        with pytest.raises(psycopg.Error, match="has no snapshot"), conn.transaction():
            conn.execute(query, (1,))
        assert conn.execute(query, (snapshot,)).fetchone() == (5000,)
