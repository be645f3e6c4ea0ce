"""Warehouse and gateway address belong to the database: who decides them, who uses them, who is refused."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.catalog.migrate import apply_migrations, read_migrations
from thermocline.catalog.profiles import record_default_warehouse
from thermocline.core.names import TableName
from thermocline.errors import (
    ChangedDuringRegistration,
    CopiedDatabase,
    MissingPrivilege,
    PlacesDiffer,
    PostgresUnreachable,
)
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import Places, WantedPlaces, join_database, read_places, wanted_places
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.requests.submit import submit_request
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import free_port
from thermocline.runtime.settings import Settings

MORE = (
    "create table public.more (id bigint, ts timestamptz, primary key (id, ts)) partition by range (ts)",
    "create table public.more_1 partition of public.more for values from ('2026-01-01') to ('2026-02-01')",
)


def _changed(shop: Shop, **changes: Any) -> Settings:
    return shop.settings.model_copy(update=changes)


def _register(shop: Shop, settings: Settings, table: str) -> None:
    register(shop.dsn, RegisterRequest(table=TableName("public", table)), settings=settings)


@pytest.mark.conforms("O-173")
def test_the_first_table_decides_and_a_command_in_another_directory_uses_it(shop: Shop, tmp_path: Path) -> None:
    shop.run(*EVENTS, *MORE)
    assert read_places(shop.conn) == Places(warehouse=None, gateway=None)
    shop.register()
    decided = Places(warehouse=f"file://{shop.warehouse}", gateway=shop.settings.gateway_listen)
    assert read_places(shop.conn) == decided
    elsewhere = Settings(dir=tmp_path / "elsewhere", lock_timeout_ms=300)
    _register(shop, elsewhere, "more")
    assert not (tmp_path / "elsewhere").exists()
    locations = [row[0] for row in shop.rows("select lake_location from thermocline.tables")]
    assert [location.startswith(f"file://{shop.warehouse}/public/") for location in locations] == [True, True]
    assert read_places(shop.conn) == decided
    assert shop.rows("select count(*) from public_all.events") == [(0,)]


@pytest.mark.conforms("O-173")
def test_settings_that_differ_are_refused_with_both_values_and_change_nothing(shop: Shop) -> None:
    shop.run(*EVENTS, *MORE)
    shop.register()
    before, nobody = read_places(shop.conn), f"127.0.0.1:{free_port()}"
    other = str(shop.settings.dir / "other")
    for changes, both in (
        ({"warehouse": other}, (str(shop.warehouse), other)),
        ({"gateway_listen": nobody}, (shop.settings.gateway_listen, nobody)),
        ({"gateway_addresses": f"{nobody},gw:5439"}, (shop.settings.gateway_listen, f"{nobody},gw:5439")),
    ):
        settings = _changed(shop, **changes)
        for refused in (
            lambda s=settings: _register(shop, s, "more"),
            lambda s=settings: init_database(shop.dsn, wanted_places(s)),
            lambda s=settings: lazy_spark_session(shop.dsn, s)(),
            lambda s=settings: submit_request("tier", shop.dsn, TableName("public", "events"), settings=s),
        ):
            with pytest.raises(PlacesDiffer) as problem:
                refused()
            assert all(value in str(problem.value) for value in both)
            assert (problem.value.code, "--take-over" in problem.value.hint) == ("TC121", True)
    assert read_places(shop.conn) == before
    assert not Path(other).exists()


def test_another_spelling_of_the_same_place_is_no_difference(shop: Shop) -> None:
    shop.run(*EVENTS, *MORE)
    shop.register()
    link = shop.settings.dir / "link"
    link.symlink_to(shop.warehouse)
    for spelling in (
        f"file://{shop.warehouse}/",
        f"file:{shop.warehouse}",
        str(link),
        f"{shop.warehouse}/../lake house",
    ):
        init_database(shop.dsn, wanted_places(_changed(shop, warehouse=spelling)))
    init_database(shop.dsn, wanted_places(_changed(shop, gateway_addresses=shop.settings.gateway_listen)))
    listening = _changed(shop, gateway_listen="0.0.0.0:5439")
    init_database(shop.dsn, wanted_places(listening))
    assert read_places(shop.conn) == Places(warehouse=f"file://{shop.warehouse}", gateway=shop.settings.gateway_listen)


@pytest.mark.conforms("O-173")
def test_taking_over_changes_what_was_told_and_lakes_stay_where_they_are(shop: Shop) -> None:
    shop.run(*EVENTS, *MORE)
    shop.register()
    first = shop.rows("select lake_location from thermocline.tables")
    bucket = "s3://lake/warehouse"
    init_database(shop.dsn, wanted_places(_changed(shop, warehouse=bucket)), take_over=True)
    assert read_places(shop.conn) == Places(warehouse=bucket, gateway=shop.settings.gateway_listen)
    several = f"{shop.settings.gateway_listen},gw.example:5439"
    init_database(shop.dsn, wanted_places(_changed(shop, warehouse=bucket, gateway_addresses=several)), take_over=True)
    assert read_places(shop.conn) == Places(warehouse=bucket, gateway=several)
    # One of several gateways is among them.
    report = init_database(shop.dsn, wanted_places(_changed(shop, warehouse=bucket)))
    assert (report.warehouse, report.gateway) == (bucket, several)
    assert shop.rows("select lake_location from thermocline.tables") == first


@pytest.mark.conforms("O-173")
def test_a_gateway_that_listens_elsewhere_does_not_move_postgres_unless_it_takes_over(shop: Shop) -> None:
    init_database(shop.dsn, wanted_places(shop.settings))
    before, mine = read_places(shop.conn), f"127.0.0.1:{free_port()}"
    settings = _changed(shop, gateway_listen=mine)
    join_database(shop.dsn, settings, take_over=False, listens=mine)
    assert read_places(shop.conn) == before
    with pytest.raises(PlacesDiffer):
        join_database(shop.dsn, _changed(shop, gateway_addresses=mine), take_over=False, listens=mine)
    with pytest.raises(PlacesDiffer):
        join_database(shop.dsn, _changed(shop, warehouse="/lakes/other"), take_over=False)
    join_database(shop.dsn, settings, take_over=True, listens=mine)
    assert read_places(shop.conn) == Places(warehouse=before.warehouse, gateway=mine)
    join_database(shop.dsn, _changed(shop, warehouse="/lakes/other"), take_over=True)
    assert read_places(shop.conn) == Places(warehouse="file:///lakes/other", gateway=mine)


def test_a_process_may_start_before_postgres_but_not_take_over(shop: Shop) -> None:
    away = f"host=127.0.0.1 port={free_port()} dbname=nowhere"
    join_database(away, shop.settings, take_over=False)
    with pytest.raises(PostgresUnreachable):
        join_database(away, shop.settings, take_over=True)


def test_taking_over_needs_the_rights_of_the_one_who_made_the_catalog(shop: Shop, make_role: Any) -> None:
    init_database(shop.dsn, wanted_places(shop.settings))
    role = make_role()
    shop.run(f"grant select on thermocline.default_warehouse, thermocline.schema_version to {role}")
    with pytest.raises(MissingPrivilege, match="may not change the places"):
        join_database(shop.as_role(role), _changed(shop, warehouse="/lakes/other"), take_over=True)


def test_two_first_registrations_agree_on_one_warehouse(shop: Shop) -> None:
    """The one that waited for the other is refused, and leaves nothing."""
    shop.run(*EVENTS)
    other = str(shop.settings.dir / "other")
    settings = Settings(dir=shop.settings.dir / "mine", lock_timeout_ms=60_000)
    with closing(connect(shop.dsn)) as first, ThreadPoolExecutor(1) as pool:
        record_default_warehouse(first, other)
        second = pool.submit(_register, shop, settings, "events")
        _wait_for_lock(shop)
        first.commit()
        with pytest.raises(ChangedDuringRegistration, match="got another warehouse"):
            second.result()
    assert shop.rows("select from thermocline.tables") == []
    assert list((shop.settings.dir / "mine").rglob("*.json")) == []
    _register(shop, settings, "events")
    ((location,),) = shop.rows("select lake_location from thermocline.tables")
    assert location.startswith(f"file://{other}/public/events-")


def _wait_for_lock(shop: Shop) -> None:
    waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    for _ in range(600):
        if shop.rows(waiting):
            return
        time.sleep(0.05)
    raise AssertionError("nobody waits")


def test_a_claimed_copy_takes_over_what_it_is_told(shop: Shop) -> None:
    shop.run(*EVENTS, *MORE)
    shop.register()
    shop.run("update thermocline.database_identity set system_identifier = system_identifier + 1")
    mine = f"127.0.0.1:{free_port()}"
    settings = _changed(shop, gateway_listen=mine)
    with pytest.raises(CopiedDatabase):
        _register(shop, shop.settings, "more")
    with pytest.raises(PlacesDiffer):
        init_database(shop.dsn, wanted_places(settings))
    report = init_database(shop.dsn, wanted_places(settings), claim=True)
    assert (report.gateway, report.warehouse) == (mine, str(shop.warehouse))
    with pytest.raises(PlacesDiffer):  # it is the original now
        init_database(shop.dsn, wanted_places(shop.settings), claim=True)


def test_an_upgrade_takes_the_warehouse_from_the_lakes_that_are_there(shop: Shop) -> None:
    shop.run(*EVENTS, *MORE)
    shop.register()
    shop.register("public.more")
    assert _upgraded(shop) == f"file://{shop.warehouse}"
    # Made by a command in another directory: as many tables here as there, and the newest is there.
    shop.run("update thermocline.tables set lake_location = 's3://lake/stray/public/more-0123abcd' where id = 2")
    assert _upgraded(shop) == "s3://lake/stray"
    shop.run(
        "insert into thermocline.storage_profiles (name, warehouse) values ('archive', 's3://lake/stray')",
        "update thermocline.tables set profile = 'archive' where id = 2",
    )
    assert _upgraded(shop) == f"file://{shop.warehouse}"
    # An adopted lake may be anywhere.
    shop.run("update thermocline.tables set lake_location = 's3://lake/adopted' where id = 1")
    assert _upgraded(shop) is None


def _upgraded(shop: Shop) -> str | None:
    """The warehouse after the migration that recorded it first."""
    migration = next(found for found in read_migrations() if found.name == "default_warehouse")
    shop.run("drop table thermocline.default_warehouse", migration.text)
    return read_places(shop.conn).warehouse


def test_a_stack_that_owns_its_postgres_moves_its_own_gateway(shop: Shop) -> None:
    init_database(shop.dsn, wanted_places(shop.settings))
    mine = f"127.0.0.1:{free_port()}"
    wanted = WantedPlaces(
        warehouse=None, gateway=mine, first_warehouse="/lakes/first", first_gateway=mine, owns_gateway=True
    )
    report = init_database(shop.dsn, wanted)
    assert (report.gateway, report.warehouse) == (mine, str(shop.warehouse))


def test_a_catalog_that_was_not_upgraded_has_no_warehouse_yet(bare_database: str) -> None:
    with closing(connect(bare_database, autocommit=True)) as conn:
        assert read_places(conn) == Places(warehouse=None, gateway=None)
        apply_migrations(conn)
        assert read_places(conn) == Places(warehouse=None, gateway=None)
