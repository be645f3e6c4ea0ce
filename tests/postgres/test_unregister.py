"""Unregister: everything registration made goes, nothing that is the only copy of something does."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.errors import AnotherWriter, CannotRegister, DeltaNotEmpty, LakeNotAdoptable, LockNotGranted, SeamInUse
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import wanted_places


@pytest.fixture
def events(shop: Shop) -> Shop:
    """A database prepared for the gateway, with public.events in it."""
    init_database(shop.dsn, wanted_places(shop.settings))
    shop.run(*EVENTS)
    return shop


@pytest.mark.conforms("C-139", "C-201")
def test_everything_registration_made_goes(events: Shop) -> None:
    def strip(traces: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
        # A grant to the owner of a schema spells out rights it had already.
        return {trace[:2] if trace[0] in ("schema", "relation", "server") else trace for trace in traces}

    events.run(
        "create trigger mine after insert on public.e1 for each row execute function "
        "suppress_redundant_updates_trigger()"
    )
    before = events.traces()
    events.register()
    assert strip(events.traces()) != strip(before)
    report = events.unregister()
    assert report.was_registered
    assert report.lake_kept_at is None
    assert strip(events.traces()) == strip(before)


@pytest.mark.conforms("C-201")
def test_an_unknown_table_is_a_clean_no_op(events: Shop) -> None:
    before = events.traces()
    assert events.unregister("public.nothing").was_registered is False
    assert events.unregister().was_registered is False
    assert events.traces() == before


@pytest.mark.conforms("C-202")
def test_a_lake_that_holds_rows_is_kept_and_named(events: Shop) -> None:
    events.register()
    events.run("update thermocline.cutline set s = 42")
    report = events.unregister()
    assert report.lake_kept_at is not None
    assert Path(report.lake_kept_at.removeprefix("file://")).is_dir()
    with pytest.raises(Exception, match=r"The lake has a table public\.events already"):
        events.register()


@pytest.mark.conforms("C-202")
@pytest.mark.parametrize(
    "statement",
    ["insert into public.events values (1, '1999-01-01')", "insert into public.events values (1, '2999-01-01')"],
)
def test_corrections_and_spilled_rows_stop_it(events: Shop, statement: str) -> None:
    events.register()
    events.run(statement)
    before = events.traces()
    with pytest.raises(DeltaNotEmpty, match="1 rows in the spill") as refused:
        events.unregister()
    assert (refused.value.code, refused.value.exit_code) == ("TC210", 3)
    assert "thermocline_delta.public__events" in refused.value.hint
    assert events.traces() == before


def test_a_row_on_its_way_into_the_spill_is_waited_for_and_not_lost(events: Shop) -> None:
    events.register()
    writer = events.session(autocommit=False)
    writer.execute("insert into public.events values (1, '1999-01-01')")
    with pytest.raises(LockNotGranted, match=r"The lock to unregister public\.events was not granted"):
        events.unregister()
    writer.commit()
    with pytest.raises(DeltaNotEmpty):
        events.unregister()


def test_a_table_somebody_works_on_is_left_alone(events: Shop) -> None:
    events.register()
    from thermocline.catalog import journal

    worker = events.session()
    table_id = events.rows("select id from thermocline.tables")[0][0]
    with journal.table_lock(worker, table_id, "public.events"), pytest.raises(AnotherWriter):
        events.unregister()
    assert events.unregister().was_registered


def test_views_built_on_the_seam_are_named_and_kept(events: Shop) -> None:
    events.register()
    events.run("create view public.report as select count(*) from public_all.events")
    with pytest.raises(SeamInUse, match=r"view public\.report depends on view public_all\.events") as refused:
        events.unregister()
    assert (refused.value.code, refused.value.exit_code) == ("TC213", 3)
    events.run("drop view public.report")
    assert events.unregister().was_registered


@pytest.mark.parametrize(
    "after", ["select 1", "create view public.events as select 1 as x", "create table public.events (x int)"]
)
def test_it_works_when_the_heap_itself_is_gone(events: Shop, after: str) -> None:
    events.register()
    events.run("drop table public.events cascade", after)
    assert events.unregister().was_registered
    assert events.rows("select count(*) from pg_class where relnamespace = 'thermocline_delta'::regnamespace") == [(0,)]
    assert list(events.warehouse.rglob("*.json")) == []


def test_a_seam_schema_of_the_users_own_stays_and_keeps_its_grants(events: Shop) -> None:
    events.run("create schema mine")
    events.register(seam_schema="mine")
    assert events.rows("select has_schema_privilege('public', 'mine', 'USAGE')") == [(False,)]
    events.unregister()
    assert events.rows("select count(*) from pg_namespace where nspname = 'mine'") == [(1,)]


def test_a_capture_trigger_goes_from_a_partition_that_was_detached_and_renamed(events: Shop) -> None:
    events.register()
    events.run(
        "create trigger thermocline_capture after insert or update or delete on public.e1"
        " for each row execute function thermocline_fn.public__events_capture()",
        "alter table public.events detach partition public.e1",
        'alter table public.e1 rename to "e%1"',
    )
    events.unregister()
    assert events.rows("select count(*) from pg_trigger where tgname = 'thermocline_capture'") == [(0,)]


@pytest.mark.conforms("C-035")
def test_a_lake_belongs_to_one_table(events: Shop) -> None:
    """By its place while it is registered, by its name and id once it was left: another table gets it neither way."""
    events.register()
    events.run(
        "create table public.other (id int, ts timestamptz, v int, primary key (id, ts)) partition by range (ts)",
        (
            "create table public.o1 partition of public.other for values from ('2026-01-01 00:00+00') to "
            "('2026-02-01 00:00+00')"
        ),
    )
    events.register("public.other")
    with pytest.raises(psycopg.errors.UniqueViolation, match="lake_location"):
        events.run(
            "update thermocline.tables set lake_location = (select lake_location from thermocline.tables "
            "where table_name = 'events')"
            " where table_name = 'other'"
        )
    events.unregister("public.other")
    same = (
        "select catalog_name, table_namespace, 'other', metadata_location, iceberg_type from "
        "thermocline_iceberg.iceberg_tables"
    )
    events.run(
        (
            "insert into thermocline_iceberg.iceberg_tables (catalog_name, table_namespace, table_name, "
            "metadata_location, iceberg_type) "
        )
        + same
    )
    with pytest.raises(CannotRegister, match=r"The lake has a table public\.other already"):
        events.register("public.other")
    with pytest.raises(LakeNotAdoptable, match=r"public\.other was not left by an unregistration here"):
        events.register("public.other", adopt_lake=True)
    assert events.rows("select count(*) from thermocline.tables") == [(1,)]
