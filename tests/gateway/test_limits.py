"""Limits of a gateway, and a Postgres that restarts under it."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from thermocline.errors import GatewayNotStarted
from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.server import start_in_thread

NUMBERS = Schema(NestedField(1, "id", LongType(), required=False))


def _fill(site: Any, count: int) -> int:
    site.lake.create("numbers", NUMBERS)
    return int(site.lake.append("numbers", pa.table({"id": pa.array(range(count), pa.int64())})))


def _dsn(site: Any, port: int) -> str:
    return str(psycopg.conninfo.make_conninfo(site.direct_dsn(), port=port))


def test_one_connection_too_many_is_told_so(site: Any) -> None:
    with start_in_thread(site.dsn, config=GatewayConfig(dsn=site.dsn, max_connections=2)) as small:
        first, second = psycopg.connect(_dsn(site, small.port)), psycopg.connect(_dsn(site, small.port))
        with closing(first), closing(second), pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(_dsn(site, small.port))


def test_the_statement_timeout_ends_a_statement_and_not_the_session(site: Any) -> None:
    snapshot = _fill(site, 3_000_000)
    config = GatewayConfig(dsn=site.dsn, statement_timeout_seconds=0.05, duckdb_threads=1)
    with (
        start_in_thread(site.dsn, config=config) as hasty,
        psycopg.connect(_dsn(site, hasty.port), autocommit=True) as client,
    ):
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            client.execute(
                "select id from public.numbers where _snapshot = %s order by id %% 1000, id desc", (snapshot,)
            )
        assert client.execute("select count(*) from public.numbers where _snapshot = null").fetchone() == (0,)


def test_the_gateway_recovers_when_postgres_restarts(stoppable: Any) -> None:
    site, postgres = stoppable
    snapshot = _fill(site, 10)
    query = "select count(*) from public.numbers where _snapshot = %s"
    with psycopg.connect(site.direct_dsn(), autocommit=True) as client:
        assert client.execute(query, (snapshot,)).fetchone() == (10,)
        postgres.stop("fast")
        postgres.start()
        assert client.execute(query, (snapshot,)).fetchone() == (10,)
    with psycopg.connect(site.direct_dsn(), autocommit=True) as client:
        assert client.execute(
            "select count(*) from public.numbers where _snapshot = %s and id %% 2 = 0", (snapshot,)
        ).fetchone() == (5,)


def test_a_taken_port_is_named(site: Any) -> None:
    with pytest.raises(GatewayNotStarted, match=str(site.gateway.port)):
        start_in_thread(site.dsn, port=site.gateway.port)


def test_an_answer_left_half_read_while_more_is_read_ahead_is_let_go(site: Any) -> None:
    snapshot = _fill(site, 300_000)
    everything = f"select id from public.numbers where _snapshot = {snapshot}"
    with psycopg.connect(site.direct_dsn(), autocommit=True) as client:
        for _ in range(20):
            with client.transaction():
                client.execute(f"declare c cursor for {everything}")
                assert len(client.execute("fetch 40000 from c").fetchall()) == 40_000
                client.execute("close c")
        with client.transaction():
            client.execute(f"declare c cursor for {everything} order by id")
            seen = [row[0] for _ in range(31) for row in client.execute("fetch 10000 from c").fetchall()]
        assert seen == list(range(300_000))


def test_a_file_that_breaks_behind_the_first_rows_is_an_error_after_them_and_never_an_end(site: Any) -> None:
    _fill(site, 200_000)
    snapshot = site.lake.append("numbers", pa.table({"id": pa.array(range(200_000, 400_000), pa.int64())}))
    with psycopg.connect(site.direct_dsn(), autocommit=True) as client:
        query = f"select id from public.numbers where _snapshot = {snapshot}"
        assert len(client.execute(query).fetchall()) == 400_000
        for file in site.lake.files("numbers"):
            content = bytearray(file.read_bytes())
            content[len(content) // 3 : len(content) // 2] = bytes(len(content) // 2 - len(content) // 3)
            file.write_bytes(content)
        with pytest.raises(psycopg.Error) as broken:
            client.execute(query)
        assert broken.value.sqlstate == "58030"
        assert client.execute("select count(*) from public.numbers where _snapshot = null").fetchone() == (0,)
