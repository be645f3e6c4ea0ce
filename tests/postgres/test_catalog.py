"""The catalog: installed once however many programs start, upgraded by its changed files, and guarded against
regressions of the cut-line."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from tests.postgres.conftest import Shop
from tests.postgres.describe_schema import describe_schema, is_bookkeeping

from thermocline.catalog.migrate import apply_migrations, newest_version, read_migrations, read_version
from thermocline.catalog.schema_objects import read_object_files
from thermocline.catalog.tables import find_table
from thermocline.core.names import TableName
from thermocline.errors import CatalogTooNew, NotRegistered
from thermocline.runtime.pg import connect_as_typed as connect


def migrate(dsn: str) -> int:
    with closing(connect(dsn, autocommit=True)) as conn:
        return apply_migrations(conn)


def test_migrating_twice_changes_nothing(bare_database: str) -> None:
    newest = newest_version()
    with closing(connect(bare_database, autocommit=True)) as conn:
        assert (read_version(conn), apply_migrations(conn)) == (0, newest)
        before = conn.execute("select version, name, applied_at from thermocline.schema_version order by 1").fetchall()
        assert apply_migrations(conn) == newest
        assert (
            conn.execute("select version, name, applied_at from thermocline.schema_version order by 1").fetchall()
            == before
        )
        assert [row[0] for row in before] == [migration.version for migration in read_migrations()]


def test_eight_sessions_migrating_at_once_do_it_once(bare_database: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        versions = set(pool.map(migrate, [bare_database] * 8))
    assert versions == {newest_version()}


def test_a_failed_migration_leaves_no_trace(bare_database: str) -> None:
    with closing(connect(bare_database, autocommit=True)) as conn:
        conn.execute("create schema thermocline")
        conn.execute("create table thermocline.events (id int)")
        with pytest.raises(psycopg.errors.DuplicateTable):
            apply_migrations(conn)
        assert read_version(conn) == 0
        assert conn.execute("select count(*) from pg_tables where schemaname like 'thermocline%'").fetchone() == (1,)


def test_a_newer_catalog_is_refused_with_both_versions(shop: Shop) -> None:
    newest = newest_version()
    shop.conn.execute("insert into thermocline.schema_version (version, name) values (%s, 'future')", [newest + 3])
    for refuse in (
        lambda: apply_migrations(shop.conn),
        lambda: find_table(shop.conn, TableName("a", "b")),
        shop.unregister,
    ):
        with pytest.raises(
            CatalogTooNew, match=rf"has version {newest + 3}, and this program knows versions up to {newest}\."
        ):
            refuse()


def test_the_schema_is_the_sum_of_the_files_run_one_by_one_as_plain_sql(shop: Shop, bare_database: str) -> None:
    with closing(connect(bare_database, autocommit=True)) as conn:
        conn.execute("create schema thermocline")
        conn.execute("set check_function_bodies = off")
        for text in (*(m.text for m in read_migrations()), *(file.text for file in read_object_files())):
            conn.execute(text.encode())
        assert {fact for fact in describe_schema(shop.conn) if not is_bookkeeping(fact)} == describe_schema(conn)


def test_a_table_nobody_registered_is_refused_with_what_to_do(shop: Shop, bare_database: str) -> None:
    with pytest.raises(NotRegistered, match=r"public.nothing is not registered\."):
        find_table(shop.conn, TableName("public", "nothing"))
    with closing(connect(bare_database)) as conn, pytest.raises(NotRegistered, match="no Thermocline catalog yet"):
        find_table(conn, TableName("public", "nothing"))


@pytest.fixture
def table_id(shop: Shop) -> int:
    shop.run(
        "create table public.events (id bigint, primary key (id)) partition by range (id)",
        "create table public.e0 partition of public.events for values from (0) to (10)",
    )
    shop.register()
    lines = "t = 10, seam_line = 20, seam_floor = 8, s = 5, r = 3, epoch = 2, fence = 2"
    rows = shop.rows(f"update thermocline.cutline set {lines} returning table_id")
    return int(rows[0][0])


@pytest.mark.conforms("C-052")
@pytest.mark.parametrize(
    "change",
    [
        *("t = 9", "s = null", "r = 2", "r = null", "epoch = 1", "fence = 1"),
        *("seam_line = 19", "t = 21", "seam_floor = 7", "seam_floor = 11"),
    ],
)
def test_the_database_rejects_a_cut_line_that_moves_back(shop: Shop, table_id: int, change: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        shop.run(f"update thermocline.cutline set {change}")
    shop.run("update thermocline.cutline set t = 11, s = 4, r = 4, epoch = 3, fence = 3, seam_line = 21")


STATES = ["hot", "sealing", "tiering", "tiered", "dropped"]


@pytest.mark.conforms("C-055")
def test_the_database_rejects_a_partition_that_goes_back_or_is_dropped_untiered(shop: Shop, table_id: int) -> None:
    for old in STATES:
        for new in STATES:
            shop.conn.execute("delete from thermocline.partitions")
            shop.conn.execute(
                "insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state)"
                " values (%s, 'a', 'b', %s, 0, 1, %s)",
                [table_id, 0 if old == "dropped" else 1, old],
            )
            legal = STATES.index(new) >= STATES.index(old) and (new != "dropped" or old in ("tiered", "dropped"))
            try:
                shop.conn.execute("update thermocline.partitions set state = %s", [new])
            except psycopg.errors.CheckViolation:
                assert not legal, (old, new)
            else:
                assert legal, (old, new)
