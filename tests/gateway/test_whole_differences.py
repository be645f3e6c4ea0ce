"""What docs/gateway.md says is different about whole queries, and the clients people use for them."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict
from tests.gateway.jdbc import java_command
from tests.gateway.whole_lake import person, through
from tests.twin import Spanning


def test_rows_without_an_order_are_the_same_rows(lake: Spanning) -> None:
    with person(lake, engine="duckdb") as conn:
        ours = conn.execute("select id from events where shop = 1").fetchall()
    assert sorted(ours) == lake.twin.execute("select id from events where shop = 1 order by id").fetchall()


def test_an_error_of_duckdbs_leaves_the_transaction_usable(lake: Spanning) -> None:
    with person(lake, engine="duckdb") as conn:
        conn.execute("begin")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            conn.execute("select sum(f) from events")
        threading.Timer(0.5, conn.cancel_safe).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("select count(*) from events a, events b, events c where a.qty + b.qty + c.qty = 7")
        assert conn.execute("select count(*) from shops").fetchone() == (9,)
        conn.execute("commit")


def test_locking_reads_are_postgres_own(lake: Spanning) -> None:
    with person(lake) as conn:
        assert conn.execute("select id from events where id = 3300 for update").fetchall() == [(3300,)]
        conn.execute("set thermocline.engine = duckdb")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            conn.execute("select id from events where id = 3300 for update")


def test_a_session_shows_as_idle_while_duckdb_answers(lake: Spanning) -> None:
    watcher, states = lake.session(autocommit=True), []
    with person(lake, engine="duckdb") as conn:
        pid = conn.execute("select pg_backend_pid()").fetchone()

        def look() -> None:
            states.extend(watcher.execute("select state from pg_stat_activity where pid = %s", pid).fetchall())
            conn.cancel_safe()

        threading.Timer(0.7, look).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("select count(*) from events a, events b, events c where a.qty + b.qty + c.qty = 7")
    assert states == [("idle",)]


def test_cursors_and_pipelines_are_answered_by_postgres(lake: Spanning) -> None:
    expected = lake.twin.execute("select id, price from events order by id").fetchall()
    with psycopg.connect(through(lake)) as conn:
        with conn.cursor("walk") as cursor:
            cursor.execute("select id, price from public_all.events order by id")
            assert cursor.fetchall() == expected
        with conn.pipeline():
            answers = [
                conn.execute("select count(*) from public_all.events where id < %s", (limit,))
                for limit in (5, 10, 3000)
            ]
            assert [answer.fetchone() for answer in answers] == [(4,), (9,), (2995,)]


def test_notifications_come_between_the_rows_and_never_within_one(lake: Spanning) -> None:
    teller, stop = lake.session(autocommit=True), threading.Event()

    def tell() -> None:
        while not stop.is_set():
            teller.execute("select pg_notify('news', repeat('x', 500))")

    with person(lake, engine="duckdb") as conn:
        conn.execute("listen news")
        thread = threading.Thread(target=tell)
        thread.start()
        try:
            for _ in range(3):
                rows = conn.execute("select a.id, b.id, b.ts from events a, events b where a.id <= 40").fetchall()
                assert len(rows) == len(set(rows)) == 38 * 3297
        finally:
            stop.set()
            thread.join()


def test_asyncpg_asks_whole_queries(lake: Spanning) -> None:
    async def ask() -> list[Any]:
        parts = conninfo_to_dict(through(lake))
        conn = await asyncpg.connect(
            host=parts["host"],
            port=int(str(parts["port"])),
            user=parts["user"],
            password=parts["password"],
            database=parts["dbname"],
            ssl=False,
        )
        try:
            await conn.execute("set thermocline.engine = duckdb")
            await conn.execute("set timezone = 'UTC'")
            query = (
                "select kind, count(*), sum(price), avg(qty), max(ts) from public_all.events where shop = $1 "
                "group by kind order by kind"
            )
            first = [tuple(row) for row in await conn.fetch(query, 3)]
            assert [tuple(row) for row in await conn.fetch(query, 3)] == first
            return first
        finally:
            await conn.close()

    query = (
        "select kind, count(*), sum(price), avg(qty), max(ts) from events where shop = 3 group by kind order by kind"
    )
    assert asyncio.run(ask()) == lake.twin.execute(query).fetchall()


JDBC = """
import java.sql.*;
public class Ask {
    public static void main(String[] args) throws Exception {
        try (Connection conn = DriverManager.getConnection(args[0], args[1], args[2])) {
            conn.createStatement().execute("set thermocline.engine = duckdb");
            conn.createStatement().execute("set timezone = 'UTC'");
            try (PreparedStatement ask = conn.prepareStatement(
                    "select kind, count(*), avg(price), max(day) from public_all.events"
                    + " where shop < ? group by kind order by kind")) {
                for (int round = 0; round < 7; round++) {
                    ask.setInt(1, round);
                    try (ResultSet rows = ask.executeQuery()) {
                        while (rows.next()) System.out.println(rows.getString(1) + "|" + rows.getLong(2)
                            + "|" + rows.getBigDecimal(3) + "|" + rows.getDate(4));
                    }
                }
            }
            DatabaseMetaData data = conn.getMetaData();
            try (ResultSet rows = data.getColumns(null, "public_all", "events", "%")) {
                while (rows.next()) System.out.println(rows.getString("COLUMN_NAME"));
            }
        }
    }
}
"""


def test_jdbc_asks_whole_queries_again_and_again(lake: Spanning, tmp_path: Path) -> None:
    parts = conninfo_to_dict(through(lake))
    url = f"jdbc:postgresql://127.0.0.1:{parts['port']}/{parts['dbname']}"
    asked = [*java_command(tmp_path, "Ask", JDBC), url, str(parts["user"]), str(parts["password"])]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    expected = [
        f"{kind}|{count}|{'null' if average is None else average}|{day}"
        for shop in range(7)
        for kind, count, average, day in lake.twin.execute(
            "select kind, count(*), avg(price), max(day) from events where shop < %s group by kind order by kind",
            (shop,),
        )
    ]
    lines = done.stdout.splitlines()
    assert lines[: len(expected)] == expected
    assert lines[len(expected) :][:3] == ["id", "ts", "day"]


def test_an_orm_reflects_the_database_and_asks_it(lake: Spanning) -> None:
    parts = conninfo_to_dict(through(lake))
    url = sqlalchemy.URL.create(
        "postgresql+psycopg",
        str(parts["user"]),
        str(parts["password"]),
        "127.0.0.1",
        int(str(parts["port"])),
        str(parts["dbname"]),
    )
    engine = sqlalchemy.create_engine(url)
    try:
        known = sqlalchemy.MetaData()
        known.reflect(engine, schema="public_all", views=True)
        known.reflect(engine, schema="public")
        events, shops = known.tables["public_all.events"], known.tables["public.shops"]
        assert [column.name for column in shops.primary_key] == ["id"]
        query = (
            sqlalchemy.select(shops.c.region, sqlalchemy.func.count(), sqlalchemy.func.avg(events.c.price))
            .join(shops, shops.c.id == events.c.shop)
            .group_by(shops.c.region)
            .order_by(shops.c.region)
        )
        with engine.connect() as conn:
            conn.execute(sqlalchemy.text("set thermocline.engine = duckdb"))
            ours = [tuple(row) for row in conn.execute(query)]
        assert (
            ours
            == lake.twin.execute(
                "select region, count(*), avg(price) from events join shops on shops.id = events.shop group "
                "by region order by region"
            ).fetchall()
        )
    finally:
        engine.dispose()
