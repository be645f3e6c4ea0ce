"""The memory limit of a connection: statements that buffer rows run under it, and exceeding it affects no other
connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.executor.memory_limits import MemoryLimits
from thermocline.gateway.server import start_in_thread

ROWS = 1_100_000
NOTES = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))


@pytest.fixture(scope="module")
def notes(shared_site: Any) -> int:
    """A lake table whose sort takes about 100 MB; its snapshot."""
    ids = np.random.default_rng(7).permutation(ROWS)
    shared_site.lake.create("notes", NOTES)
    shared_site.lake.foreign_table("notes", "id bigint, note text")
    rows = {"id": pa.array(ids), "note": pa.array([f"note number {i} of many" for i in ids])}
    return int(shared_site.lake.append("notes", pa.table(rows)))


@contextmanager
def _limited(site: Any, **limits: Any) -> Iterator[str]:
    config = GatewayConfig(dsn=site.dsn, memory=MemoryLimits(**limits))
    with start_in_thread(site.dsn, config=config) as gateway:
        yield make_conninfo(site.direct_dsn(), port=gateway.port)


def _connected(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True)


def test_a_sort_past_the_connections_limit_is_refused_and_nobody_else_notices(shared_site: Any, notes: int) -> None:
    everything = f"select id, note from public.notes where _snapshot = {notes}"
    with (
        _limited(shared_site, connection_bytes=20_000_000, spill_bytes=0) as dsn,
        _connected(dsn) as greedy,
        _connected(dsn) as other,
    ):
        streaming = other.cursor()
        rows = streaming.stream(everything)
        assert next(rows)
        with pytest.raises(psycopg.Error, match=r"TC509.*20 MB of memory that one connection may use") as refused:
            greedy.execute(f"{everything} order by id")
        assert refused.value.sqlstate == "53200"
        assert sum(1 for _ in rows) == ROWS - 1
        assert greedy.execute(f"{everything} order by id limit 3").fetchall() == [
            (i, f"note number {i} of many") for i in range(3)
        ]
        assert greedy.execute(f"select count(*) from public.notes where _snapshot = {notes}").fetchone() == (ROWS,)


def test_a_sort_past_the_limit_goes_on_on_disk_where_it_may(shared_site: Any, notes: int) -> None:
    with _limited(shared_site, connection_bytes=40_000_000) as dsn, _connected(dsn) as conn:
        rows = conn.cursor().stream(f"select id from public.notes where _snapshot = {notes} order by note desc, id")
        first = next(rows)
        assert first == (999_999,)
        assert sum(1 for _ in rows) == ROWS - 1


def test_two_cursors_of_one_connection_share_its_memory_and_two_connections_take_turns(
    shared_site: Any, notes: int
) -> None:
    sort = f"cursor for select id from public.notes where _snapshot = {notes} order by id"
    limits = {"whole_bytes": 300_000_000, "connection_bytes": 300_000_000, "wait_seconds": 0.5}
    with _limited(shared_site, **limits) as dsn, _connected(dsn) as first, _connected(dsn) as second:
        with first.transaction():
            for name in ("a", "b"):
                first.execute(f"declare {name} {sort}")
                assert first.execute(f"fetch 2 from {name}").fetchall() == [(0,), (1,)]
            second.execute("begin")
            second.execute(f"declare c {sort}")
            with pytest.raises(psycopg.Error, match="TC507") as busy:
                second.execute("fetch 2 from c")
            second.execute("rollback")
            assert busy.value.sqlstate == "53000"
        with second.transaction():
            second.execute(f"declare c {sort}")
            assert second.execute("fetch 2 from c").fetchall() == [(0,), (1,)]
