"""Registration's options: what each of them settles, and every wrong one refused by its name with nothing left
behind."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.errors import (
    AlreadyRegistered,
    BadDuration,
    CannotRegister,
    ModeNotImplemented,
    NoSuchColumn,
    ThermoclineError,
    UsageError,
    WrongCombination,
)

DAYS = (
    "create table public.events (id bigint not null, ts date not null, primary key (id, ts)) partition by range (ts)",
    "create table public.e1 partition of public.events for values from ('2026-01-01') to ('2026-02-01')",
)
NUMBERS = (
    (
        "create table public.events (id bigint not null, ts integer not null, primary key (id, ts)) partition by "
        "range (ts)"
    ),
    "create table public.e1 partition of public.events for values from (0) to (1000)",
)
OPEN = (
    (
        "create table public.events (id bigint not null, ts timestamptz not null, primary key (id, ts)) "
        "partition by range (ts)"
    ),
    "create table public.e1 partition of public.events for values from (minvalue) to ('2026-02-01')",
    "create table public.e2 partition of public.events for values from ('2026-02-01') to (maxvalue)",
)
CHOICES = (
    "select m.heap_is_complete, tiering_lag, reclaim_lag, lake_retention, partition_width, premake, "
    "lake_partition from "
    "thermocline.tables t join thermocline.modes m on m.name = t.mode"
)
DAY = 86_400_000_000


@pytest.mark.conforms("C-013", "C-017", "C-018", "C-019")
@pytest.mark.parametrize(
    ("table", "choices", "held"),
    [
        (EVENTS, {}, (False, 0, 0, None, None, 2, "month")),
        (EVENTS, {"keep_heap": True, "premake": 0}, (True, 0, 0, None, None, 0, "month")),
        (EVENTS, {"tiering_lag": "2d", "lake_retention": "12w"}, (False, 2 * DAY, 0, 84 * DAY, None, 2, "month")),
        (
            EVENTS,
            {"tiering_lag": "36h", "reclaim_lag": "30m"},
            (False, 36 * 3_600_000_000, 1_800_000_000, None, None, 2, "month"),
        ),
        (EVENTS, {"partition_width": "1d", "premake": 7}, (False, 0, 0, None, DAY, 7, "day")),
        (EVENTS, {"lake_partition": "hour"}, (False, 0, 0, None, None, 2, "hour")),
        (DAYS, {"tiering_lag": "7d", "lake_retention": "90d"}, (False, 7, 0, 90, None, 2, "month")),
        (NUMBERS, {"tiering_lag": "5", "lake_retention": "4000"}, (False, 5, 0, 4000, None, 2, "truncate[1000]")),
        (NUMBERS, {"partition_width": "50"}, (False, 0, 0, None, 50, 2, "truncate[50]")),
        (
            NUMBERS,
            {"partition_width": "50", "lake_partition": "width:200"},
            (False, 0, 0, None, 50, 2, "truncate[200]"),
        ),
        (OPEN, {"lake_retention": "1d", "partition_width": "1d"}, (False, 0, 0, DAY, DAY, 2, "day")),
    ],
)
def test_options_are_kept_with_the_registration(
    shop: Shop, table: tuple[str, ...], choices: dict[str, Any], held: tuple[Any, ...]
) -> None:
    shop.run(*table)
    shop.register(**choices)
    assert shop.rows(CHOICES) == [held]
    assert shop.register(**choices).already
    assert shop.register().already


@pytest.mark.conforms("C-006", "C-017", "C-019", "C-025", "C-027", "C-028", "C-029", "C-030")
@pytest.mark.parametrize(
    ("table", "choices", "problem", "sentence"),
    [
        (
            EVENTS,
            {"keep_heap": True, "lake_retention": "90d"},
            WrongCombination,
            "keep-heap means nothing is deleted anywhere",
        ),
        (
            EVENTS,
            {"keep_heap": True, "reclaim_lag": "90d"},
            WrongCombination,
            "--reclaim-lag does not go with --keep-heap",
        ),
        (EVENTS, {"mode": "mirrored"}, ModeNotImplemented, "Mode mirrored is not built yet"),
        (EVENTS, {"mode": "mirrored", "keep_heap": True}, WrongCombination, "--keep-heap belongs to mode tiered"),
        (
            EVENTS,
            {"mode": "mirrored", "lake_retention": "1d"},
            WrongCombination,
            "--lake-retention belongs to mode tiered",
        ),
        (EVENTS, {"mode": "frozen"}, UsageError, "'frozen' is not a mode"),
        (EVENTS, {"heap_retention": "1d"}, WrongCombination, "--heap-retention belongs to mode mirrored"),
        (EVENTS, {"premake": -1}, UsageError, "--premake -1 is out of range"),
        (EVENTS, {"premake": 5000}, UsageError, "--premake 5000 is out of range"),
        (EVENTS, {"tiering_lag": "7"}, BadDuration, "'7' has no unit"),
        (EVENTS, {"tiering_lag": "-7d"}, BadDuration, "'-7d' is not a duration"),
        (EVENTS, {"lake_retention": "0d"}, BadDuration, "--lake-retention 0d is nothing"),
        (EVENTS, {"partition_width": "0d"}, BadDuration, "--partition-width 0d is nothing"),
        (EVENTS, {"lake_partition": "width:10"}, UsageError, "not a lake partitioning for a timestamp"),
        (EVENTS, {"tier_key": "nothing"}, NoSuchColumn, "has no column nothing, which --tier-key names"),
        (
            EVENTS,
            {"tier_key": "id"},
            UsageError,
            r"id cannot be the tier key of public.events, which is partitioned by RANGE \(ts\)",
        ),
        (EVENTS, {"pk": ("id", "when")}, NoSuchColumn, "has no column when, which --pk names"),
        (EVENTS, {"pk": ("id",)}, CannotRegister, r"covers exactly \(id\)"),
        (EVENTS, {"pk": ("id", "ts", "v")}, CannotRegister, r"covers exactly \(id, ts, v\)"),
        (DAYS, {"tiering_lag": "12h"}, BadDuration, "finer than the tier key"),
        (DAYS, {"lake_retention": "36h"}, BadDuration, "finer than the tier key"),
        (DAYS, {"lake_partition": "hour"}, UsageError, "not a lake partitioning for a date"),
        (NUMBERS, {"tiering_lag": "7d"}, BadDuration, "has a time unit, but the tier key is integer"),
        (NUMBERS, {"partition_width": "3000000000"}, UsageError, "width:3000000000"),
        (NUMBERS, {"lake_partition": "day"}, UsageError, "not a lake partitioning for an integer key"),
        (OPEN, {"lake_retention": "1d"}, WrongCombination, "--lake-retention needs to know how wide a partition"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name_and_leaves_nothing(
    shop: Shop, table: tuple[str, ...], choices: dict[str, Any], problem: type[ThermoclineError], sentence: str
) -> None:
    shop.run(*table)
    with pytest.raises(problem, match=sentence):
        shop.register(**choices)
    assert shop.rows("select to_regclass('thermocline_delta.public__events'), to_regclass('public_all.events')") == [
        (None, None)
    ]
    assert not list(shop.warehouse.rglob("*.metadata.json"))


@pytest.mark.conforms("C-015")
@pytest.mark.parametrize(
    ("choices", "option"),
    [
        ({"tiering_lag": "3d"}, "--tiering-lag"),
        ({"lake_retention": "3d"}, "--lake-retention"),
        ({"premake": 9}, "--premake"),
        ({"partition_width": "1d"}, "--partition-width"),
        ({"keep_heap": True}, "--keep-heap"),
        ({"lake_partition": "year"}, "--lake-partition"),
    ],
)
def test_registering_again_with_another_argument_names_it(shop: Shop, choices: dict[str, Any], option: str) -> None:
    shop.run(*EVENTS)
    shop.register()
    with pytest.raises(AlreadyRegistered, match=option):
        shop.register(**choices)


@pytest.mark.conforms("C-027")
def test_a_unique_constraint_on_not_null_columns_can_be_the_identity(shop: Shop) -> None:
    shop.run(
        (
            "create table public.events (id bigint not null, code text not null, ts integer not null, v integer) "
            "partition by range (ts)"
        ),
        "create table public.e1 partition of public.events for values from (0) to (1000)",
        "alter table public.events add unique (ts, code)",
        "insert into public.events values (1, 'a', 5, 1)",
    )
    with pytest.raises(CannotRegister, match="has no primary key"):
        shop.register()
    assert shop.register(pk=("code", "ts")).primary_key == ("ts", "code")
    assert shop.register(pk=("ts", "code")).already
    assert shop.register().already
    shop.run("update public_all.events set v = 2 where code = 'a'")
    assert shop.rows("table public_all.events") == [(1, "a", 5, 2)]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="its primary key is gone"):
        shop.run("alter table public.events drop constraint events_ts_code_key")


@pytest.mark.conforms("C-027")
@pytest.mark.parametrize(
    "constraint",
    [
        "alter table public.events add unique (ts, nullable)",
        "alter table public.events add unique (ts, code) deferrable",
        "create unique index on public.events (ts, code) where code > ''",
        "create unique index on public.events (ts, lower(code))",
    ],
)
def test_what_does_not_make_rows_unique_cannot_be_the_identity(shop: Shop, constraint: str) -> None:
    shop.run(
        "create table public.events (code text not null, nullable text, ts integer not null) partition by range (ts)",
        "create table public.e1 partition of public.events for values from (0) to (1000)",
        constraint,
    )
    with pytest.raises(CannotRegister, match="NOT NULL unique constraint"):
        shop.register(pk=("ts", "nullable" if "nullable" in constraint else "code"))


@pytest.mark.conforms("C-033")
def test_inbound_foreign_keys_are_refused_where_partitions_drop_and_taken_with_keep_heap(shop: Shop) -> None:
    shop.run(
        *EVENTS,
        "create table public.notes (id bigint, ts timestamptz, foreign key (id, ts) references public.events)",
    )
    with pytest.raises(CannotRegister, match="is referenced by"):
        shop.register()
    assert not shop.register(keep_heap=True).already


@pytest.mark.parametrize("action", ["on delete cascade", "on delete set null", "on update cascade"])
def test_foreign_keys_that_change_rows_are_refused_where_they_cannot_reach_them_all(shop: Shop, action: str) -> None:
    shop.run(
        *EVENTS,
        "create table public.owners (id bigint primary key)",
        f"alter table public.events add column owner bigint references public.owners {action}",
    )
    with pytest.raises(
        CannotRegister,
        match=r"events_owner_fkey, which changes rows here when one of (public\.)?owners goes or changes",
    ):
        shop.register()
    assert not shop.register(keep_heap=True).already


def test_a_foreign_key_that_only_checks_is_taken(shop: Shop) -> None:
    shop.run(
        *EVENTS,
        "create table public.owners (id bigint primary key)",
        "alter table public.events add column owner bigint references public.owners on delete restrict",
    )
    assert not shop.register().already


def test_the_maintenance_preset_is_the_tables_own_from_the_start(shop: Shop) -> None:
    shop.run(*EVENTS)
    with pytest.raises(UsageError, match="unknown preset 'sea'"):
        shop.register(preset="sea")
    shop.register(preset="seaweedfs")
    assert shop.conn.execute("select maintenance_policy from thermocline.tables").fetchone() == (
        {"preset": "seaweedfs"},
    )
    assert shop.register(preset="seaweedfs").already
    with pytest.raises(AlreadyRegistered, match=r"another --preset \(seaweedfs\)"):
        shop.register(preset="artemis")


@pytest.mark.conforms("C-063")
def test_the_setting_tells_how_many_partitions_are_premade_where_the_option_does_not(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.settings = shop.settings.model_copy(update={"premake_partitions": 5})
    shop.register()
    assert shop.rows("select premake from thermocline.tables") == [(5,)]
    shop.unregister()
    shop.register(premake=1)
    assert shop.rows("select premake from thermocline.tables") == [(1,)]
