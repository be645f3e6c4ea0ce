"""Upgrades of the catalog: changed files are applied again, removed ones dropped, and what was applied is verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest
from tests.postgres.conftest import Shop
from tests.postgres.describe_schema import describe_schema, make_version_13, read_catalog_rows
from tests.postgres.events_table import EVENTS

from thermocline.catalog import migrate, schema_objects
from thermocline.catalog.migrate import apply_migrations, is_up_to_date, newest_version, read_migrations, read_version
from thermocline.catalog.reference_tables import REFERENCE_TABLES, ReferenceTable
from thermocline.catalog.schema_objects import ObjectFile, read_object_files
from thermocline.catalog.tables import find_table, read_tables
from thermocline.core.modes.mode import MODES, TIERED_KEEP_HEAP
from thermocline.core.names import TableName
from thermocline.errors import CatalogNotUpgraded, CatalogObjectInUse, CatalogTooOld, MigrationChanged
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.fixture
def bare(bare_database: str) -> Iterator[Connection]:
    with closing(connect(bare_database, autocommit=True)) as conn:
        yield conn


def test_a_new_catalog_and_one_upgraded_from_version_13_are_the_same(shop: Shop, bare: Connection) -> None:
    make_version_13(bare)
    assert (read_version(bare), is_up_to_date(bare)) == (13, False)
    assert apply_migrations(bare) == newest_version()
    assert describe_schema(bare) == describe_schema(shop.conn)
    assert read_catalog_rows(bare) == read_catalog_rows(shop.conn)
    assert is_up_to_date(bare)


def test_modes_and_their_properties_are_those_of_the_declaration(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.register(keep_heap=True)
    found = shop.rows("select name, heap_is_complete, drops_partitions, is_built from thermocline.modes order by name")
    declared = [(mode.name, mode.heap_is_complete, mode.drops_partitions, mode.is_built) for mode in MODES]
    assert found == sorted(declared)
    assert shop.rows("select mode from thermocline.tables") == [(TIERED_KEEP_HEAP.name,)]
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        shop.run("update thermocline.tables set mode = 'another'")


def test_rows_of_a_catalog_that_was_not_upgraded_are_not_read(bare: Connection) -> None:
    """Version 13 stored keep-heap in a column of its own: read as tiered, its partitions would be dropped."""
    make_version_13(bare)
    for read in (lambda: read_tables(bare), lambda: find_table(bare, TableName("public", "events"))):
        with pytest.raises(CatalogNotUpgraded, match=r"has version 13, and this program needs \d+\."):
            read()


def test_a_catalog_older_than_the_baseline_is_refused(bare: Connection) -> None:
    make_version_13(bare)
    bare.execute("delete from thermocline.schema_version where version > 11")
    with pytest.raises(CatalogTooOld, match=r"has version 11, and this program upgrades from version 13 on\."):
        apply_migrations(bare)


@pytest.mark.parametrize("change", ["sha256 = 'other'", "sha256 = null"])
def test_a_catalog_made_by_other_migrations_is_refused(shop: Shop, change: str) -> None:
    shop.run(f"update thermocline.schema_version set {change} where version = 13")
    with pytest.raises(MigrationChanged, match=r"Migration 13 \(baseline\) is not the one that made this catalog\."):
        apply_migrations(shop.conn)


def test_a_catalog_without_one_of_its_migrations_is_refused(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, bare: Connection
) -> None:
    later = migrate.Migration(version=newest_version() + 1, name="later", text="create table thermocline.later (n int)")
    migrations = (*read_migrations(), later)
    monkeypatch.setattr(migrate, "read_migrations", lambda: migrations)
    assert apply_migrations(shop.conn) == later.version
    assert shop.rows("select * from thermocline.later") == []
    shop.run("delete from thermocline.schema_version where version = 13")
    with pytest.raises(MigrationChanged, match=r"Migration 13 \(baseline\) was not applied, but a later one was\."):
        apply_migrations(shop.conn)


class Files:
    """The files that this program carries, changed for a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = {file.key: file for file in read_object_files()}
        for module in (migrate, schema_objects):
            monkeypatch.setattr(module, "read_object_files", lambda: tuple(self.files.values()))

    def change(self, kind: str, name: str, old: str, new: str) -> None:
        file = self.files[kind, name]
        assert old in file.text
        self.files[kind, name] = replace(file, text=file.text.replace(old, new))

    def add(self, kind: str, name: str, text: str) -> None:
        self.files[kind, name] = ObjectFile(kind=kind, name=name, text=text)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(monkeypatch)


def test_a_changed_function_is_replaced_and_others_stay(shop: Shop, files: Files) -> None:
    oids = "select p.proname, p.oid, p.xmin::text from pg_proc p where p.pronamespace = 'thermocline'::regnamespace"
    before = set(shop.rows(oids))
    files.change("functions", "is_captured", "select exists", "select true or exists")
    assert not is_up_to_date(shop.conn)
    apply_migrations(shop.conn)
    assert {row[0] for row in before ^ set(shop.rows(oids))} == {"is_captured"}
    assert shop.rows("select thermocline.is_captured(0)") == [(True,)]
    assert is_up_to_date(shop.conn)


def test_privileges_are_those_of_the_file_whatever_they_were(shop: Shop, files: Files) -> None:
    public = "select has_function_privilege('public', 'thermocline.note_types(bigint)', 'execute')"
    assert shop.rows(public) == [(False,)]
    files.change("functions", "note_types", "revoke all on function thermocline.note_types(bigint) from public;", "")
    files.change("views", "spanning", "grant select on thermocline.spanning to public;", "")
    apply_migrations(shop.conn)
    assert shop.rows(public) == [(True,)]
    assert shop.rows("select has_table_privilege('public', 'thermocline.spanning', 'select')") == [(False,)]


def test_an_overload_that_left_its_file_is_dropped(shop: Shop, files: Files) -> None:
    signatures = "select oid::regprocedure::text from pg_proc where proname = 'delete'"
    assert len(shop.rows(signatures)) == 2
    file = files.files["functions", "delete"]
    files.add("functions", "delete", file.text[: file.text.rindex("create or replace function")])
    apply_migrations(shop.conn)
    assert shop.rows(signatures) == [("thermocline.delete(regclass,jsonb)",)]


def test_an_object_whose_file_is_gone_is_dropped(shop: Shop, files: Files) -> None:
    files.add("functions", "extra", "create or replace function thermocline.extra() returns int return 1;")
    files.add(
        "views", "extra_view", "create or replace view thermocline.extra_view as select thermocline.extra() as n;"
    )
    apply_migrations(shop.conn)
    assert shop.rows("select n from thermocline.extra_view") == [(1,)]
    for key in (("functions", "extra"), ("views", "extra_view"), ("triggers", "cutline.forbid_regression")):
        del files.files[key]
    del files.files["triggers", "thermocline_guard"]
    apply_migrations(shop.conn)
    assert shop.rows("select to_regproc('thermocline.extra')::oid, to_regclass('thermocline.extra_view')") == [
        (None, None)
    ]
    assert (
        shop.rows("select from pg_trigger where tgrelid = 'thermocline.cutline'::regclass and not tgisinternal") == []
    )
    assert shop.rows("select from pg_event_trigger where evtname = 'thermocline_guard'") == []
    assert is_up_to_date(shop.conn)


def test_a_view_with_other_columns_is_made_again_with_the_functions_that_depend_on_it(shop: Shop, files: Files) -> None:
    before = describe_schema(shop.conn)
    files.change(
        "views", "spanning", "select t.id, t.heap_oid::regclass as heap,", "select t.heap_oid::regclass as heap, t.id,"
    )
    apply_migrations(shop.conn)
    after = describe_schema(shop.conn)
    names = {(kind, name) for kind, name, _ in before ^ after}
    assert names == {
        ("view", "thermocline.spanning"),
        ("column", "thermocline.spanning.id"),
        ("column", "thermocline.spanning.heap"),
    }


def test_a_function_with_another_result_is_made_again_with_its_trigger(shop: Shop, files: Files) -> None:
    files.change("functions", "is_original_database", "returns boolean", "returns text")
    files.change("functions", "is_original_database", "true)\n", "true)::text\n")
    files.change(
        "views",
        "tables_here",
        "where thermocline.is_original_database()",
        "where thermocline.is_original_database()::boolean",
    )
    apply_migrations(shop.conn)
    assert shop.rows("select pg_typeof(thermocline.is_original_database())::text") == [("text",)]
    assert shop.rows("select count(*) from thermocline.tables_here") == [(0,)]


def test_what_is_not_ours_is_never_dropped_with_an_object_that_changes(shop: Shop, files: Files) -> None:
    shop.run("create view public.somebody_s as select thermocline.is_original_database() as yes")
    before = describe_schema(shop.conn)
    files.change("functions", "is_original_database", "returns boolean", "returns text")
    with pytest.raises(CatalogObjectInUse, match=r"thermocline.is_original_database .* view somebody_s depends on it"):
        apply_migrations(shop.conn)
    assert describe_schema(shop.conn) == before


def test_a_role_that_may_create_nothing_uses_a_catalog_that_is_up_to_date(shop: Shop) -> None:
    shop.run(
        "create role tc_plain",
        "grant select on thermocline.schema_version, thermocline.schema_objects to tc_plain",
        "set role tc_plain",
    )
    try:
        assert apply_migrations(shop.conn) == newest_version()
    finally:
        shop.run("reset role", "drop owned by tc_plain", "drop role tc_plain")


def test_rows_of_a_reference_table_follow_their_declaration(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    (routes,) = (table for table in REFERENCE_TABLES if table.name == "routes")
    first, second, *others = routes.rows
    changed = replace(routes, rows=({**first, "sentence": "another one"}, *others, {**second, "mode": "none"}))
    tables: tuple[ReferenceTable, ...] = (*(table for table in REFERENCE_TABLES if table.name != "routes"), changed)
    monkeypatch.setattr(migrate, "REFERENCE_TABLES", tables)
    assert not is_up_to_date(shop.conn)
    apply_migrations(shop.conn)
    found = {tuple(row) for row in shop.rows("select operation, mode, side, path, sentence from thermocline.routes")}
    assert found == {tuple(row.values()) for row in changed.rows}
    assert is_up_to_date(shop.conn)


def test_postgres_accepts_the_body_of_every_function(shop: Shop) -> None:
    """They were created with check_function_bodies off."""
    for name, validator in shop.rows(
        "select p.oid, l.lanvalidator::regproc::text from pg_proc p join pg_language l on l.oid = p.prolang"
        " where p.pronamespace = 'thermocline'::regnamespace"
    ):
        with shop.conn.transaction():
            shop.conn.execute("set local check_function_bodies = on")
            shop.conn.execute(f"select {validator}({name})".encode())


def test_a_failed_upgrade_changes_nothing(shop: Shop, files: Files) -> None:
    before = describe_schema(shop.conn)
    files.change("functions", "is_captured", "select exists", "select true or exists")
    files.add("views", "broken", "create or replace view thermocline.broken as select nothing")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        apply_migrations(shop.conn)
    assert describe_schema(shop.conn) == before


EVENT_TRIGGERS = ("alter_start", "alter_end", "type_end", "guard", "partition_end")


@pytest.fixture
def unwatched(shop: Shop) -> Shop:
    """A registered table, and no event trigger that follows what is done to it."""
    shop.run(*EVENTS)
    shop.register()
    for name in EVENT_TRIGGERS:
        shop.run(f"alter event trigger thermocline_{name} disable")
    return shop


def test_an_upgrade_does_not_render_functions_for_columns_that_were_not_followed(unwatched: Shop) -> None:
    """They would pass their own check, and lose the values of the new column."""
    unwatched.run("alter table public.events add column extra text", "select thermocline.rebuild_functions()")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r"^TC409: .* not followed yet"):
        unwatched.run("insert into public.events (id, ts, extra) values (1, '1999-01-01', 'kept')")


def test_a_table_whose_functions_cannot_be_rendered_does_not_stop_an_upgrade(unwatched: Shop) -> None:
    unwatched.run("alter table public.events drop constraint events_pkey", "select thermocline.rebuild_functions()")
    (sentence,) = unwatched.rows("select sentence from thermocline.events where action = 'upgrade'")
    assert "were not rendered again" in sentence[0]


def test_what_others_put_into_our_schema_survives_the_upgrade_from_version_13(bare: Connection) -> None:
    make_version_13(bare)
    bare.execute("create view thermocline.report as select 1 as one")
    apply_migrations(bare)
    assert bare.execute("select one from thermocline.report").fetchone() == (1,)
