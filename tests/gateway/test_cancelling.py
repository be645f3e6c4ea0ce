"""A cancel never reaches a connection that was returned to its pool."""

from __future__ import annotations

import threading

import psycopg
import pytest

from thermocline.gateway.lake_arm.cancellable_connection import CancellableConnection
from thermocline.runtime.postgres_server import PostgresServer


def test_a_cancel_stops_what_runs(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        held = CancellableConnection(conn)
        threading.Timer(0.05, held.cancel).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("select pg_sleep(60)")
        assert held.let_go() is conn
        assert held.let_go() is None


def test_a_cancel_that_comes_late_hits_nobody_else(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as conn:
        for _ in range(60):
            held = CancellableConnection(conn)
            late = [threading.Thread(target=held.cancel) for _ in range(2)]
            for thread in late:
                thread.start()
            assert held.let_go() is conn
            conn.rollback()
            assert conn.execute("select pg_sleep(0.002) is null").fetchone() is not None
            for thread in late:
                thread.join()
