"""What cannot be registered: each with its sentence, its hint and its exit code, and nothing left behind."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.errors import CannotRegister, LakeNotWritable, LockNotGranted, ThermoclineError

COLUMNS = "id bigint not null, ts timestamptz not null, kind text not null default ''"
PART = "create table public.p1 partition of public.events for values from ('2026-01-01') to ('2026-02-01')"


def events(columns: str = f"{COLUMNS}, primary key (id, ts)", by: str = "range (ts)", kind: str = "") -> str:
    return f"create {kind} table public.events ({columns}) partition by {by}"


REFUSALS: list[tuple[list[str], str, dict[str, Any], int]] = [
    ([f"create table public.events ({COLUMNS}, primary key (id))"], "cannot be tiered: it is not partitioned", {}, 3),
    ([events(f"{COLUMNS}, primary key (id, ts)", "range (ts, id)")], r"by several columns: RANGE \(ts, id\)", {}, 3),
    ([events(f"{COLUMNS}, primary key (id, kind)", "list (kind)")], r"by LIST \(kind\), not by RANGE", {}, 3),
    ([events(f"{COLUMNS}, primary key (id)", "hash (id)")], r"by HASH \(id\), not by RANGE", {}, 3),
    ([events(COLUMNS, "range (lower(kind))")], r"by an expression: RANGE \(lower\(kind\)\)", {}, 3),
    ([events(COLUMNS), PART], "has no primary key", {}, 3),
    ([events(f"{COLUMNS}, primary key (id, ts) deferrable"), PART], "has a deferrable primary key", {}, 3),
    (
        [events(f"{COLUMNS}, primary key (kind)", "range (kind)")],
        "partitioned by kind, whose type text cannot be a tier key",
        {},
        3,
    ),
    ([events()], "has no partitions yet", {}, 3),
    (
        [events(), PART.replace("create", "create unlogged")],
        r"Partition public.p1 of public.events is unlogged: a crash empties it",
        {},
        3,
    ),
    (
        [events(), PART, "create table public.mine partition of public.events default"],
        "a DEFAULT partition of its own, mine",
        {},
        3,
    ),
    ([events(), PART, "alter table public.events enable row level security"], "has row-level security", {}, 3),
    ([], r"There is no table public.events\.", {}, 2),
    (["create view public.events as select 1 as id"], "public.events is a view, not a table", {}, 3),
    (["create materialized view public.events as select 1 as id"], "is a materialized view, not a table", {}, 3),
    (["create sequence public.events"], "is a sequence, not a table", {}, 3),
    ([events(), PART], r"public.p1 is itself a partition", {"table": "public.p1"}, 3),
    ([], "pg_catalog.pg_class is a system table", {"table": "pg_catalog.pg_class"}, 3),
    ([f"create unlogged table public.events ({COLUMNS}, primary key (id))"], "public.events is unlogged", {}, 3),
    (
        [*EVENTS, "create table public.r (id bigint, ts timestamptz, foreign key (id, ts) references public.events)"],
        "is referenced by public.r",
        {},
        3,
    ),
    ([events(f"{COLUMNS}, m money, primary key (id, ts)"), PART], "column m has type money", {}, 3),
    ([events(f"{COLUMNS}, r regclass[], primary key (id, ts)"), PART], r"column r has type regclass\[\]", {}, 3),
    (
        ["create domain public.cash as money", events(f"{COLUMNS}, m public.cash[], primary key (id, ts)"), PART],
        r"column m has type public.cash\[\]",
        {},
        3,
    ),
    (
        [events(f"{COLUMNS}, _op int, primary key (id, ts)"), PART],
        "has a column _op, a name Thermocline needs itself",
        {},
        3,
    ),
    (
        [events(f"{COLUMNS}, twice bigint generated always as (id * 2) virtual, primary key (id, ts)"), PART],
        "virtual generated column",
        {},
        3,
    ),
    (
        [*EVENTS, "create schema public_all", "create table public_all.events ()"],
        "A relation public_all.events exists already",
        {},
        3,
    ),
    (list(EVENTS), "A relation public.events exists already", {"seam_schema": "public"}, 3),
    (list(EVENTS), "'7' has no unit", {"tiering_lag": "7"}, 2),
    (list(EVENTS), "'' is not a duration", {"reclaim_lag": ""}, 2),
    (list(EVENTS), "'width:5' is not a lake partitioning", {"lake_partition": "width:5"}, 2),
    (
        [events(), "create table public.p partition of public.events for values from ('infinity') to (maxvalue)"],
        "Partition public.p of public.events lies at the very end",
        {},
        3,
    ),
    (
        [
            events(),
            (
                "create table public.p partition of public.events for values from ('2026-01-01') to "
                "('2026-02-01') partition by range (id)"
            ),
        ],
        "Partition public.p of public.events is itself partitioned or foreign",
        {},
        3,
    ),
]


@pytest.mark.conforms("C-025", "C-026", "C-027", "C-032", "C-033", "C-013", "O-118")
@pytest.mark.parametrize(
    ("made", "sentence", "request_", "exit_code"), REFUSALS, ids=[case[1][:40] for case in REFUSALS]
)
def test_a_refusal_says_why_and_what_to_do_and_leaves_nothing(
    shop: Shop, made: list[str], sentence: str, request_: dict[str, Any], exit_code: int
) -> None:
    shop.run(*made)
    before = shop.traces()
    with pytest.raises(ThermoclineError, match=sentence) as refused:
        shop.register(**request_)
    assert refused.value.exit_code == exit_code
    assert refused.value.hint
    assert refused.value.code.startswith("TC2") or refused.value.code == "TC002"
    assert shop.traces() == before


def test_a_temporary_table_is_refused_as_one(shop: Shop) -> None:
    shop.run(f"create temporary table events ({COLUMNS}, primary key (id, ts)) partition by range (ts)")
    schema = shop.rows("select nspname from pg_namespace where oid = pg_my_temp_schema()")[0][0]
    with pytest.raises(CannotRegister, match="is temporary"):
        shop.register(f"{schema}.events")


def test_a_refusal_in_a_database_without_a_catalog_makes_none(shop: Shop, bare_database: str) -> None:
    with pytest.raises(ThermoclineError, match="There is no table"):
        shop.register(dsn=bare_database)
    assert shop.session(bare_database).execute(
        "select count(*) from pg_namespace where nspname like 'thermocline%'"
    ).fetchone() == (0,)
    assert shop.unregister(dsn=bare_database).was_registered is False


def test_a_warehouse_that_cannot_be_written_is_refused(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.warehouse.write_text("a file where the directory should be")
    before = shop.traces()
    with pytest.raises(LakeNotWritable, match="cannot be written") as refused:
        shop.register()
    assert (refused.value.code, refused.value.exit_code) == ("TC211", 3)
    assert shop.traces() == before


def test_a_lock_held_by_another_session_is_given_up_within_the_timeout(shop: Shop) -> None:
    shop.run(*EVENTS)
    before = shop.traces()
    shop.session(autocommit=False).execute("lock table public.events in access exclusive mode")
    with pytest.raises(LockNotGranted, match="was not granted within 300 ms; nothing was changed") as refused:
        shop.register()
    assert refused.value.exit_code == 1
    shop.made[-1].rollback()
    assert shop.traces() == before
    assert not shop.register().already


@pytest.mark.conforms("C-014")
@pytest.mark.parametrize(
    "tag", ["CREATE TABLE", "CREATE FOREIGN TABLE", "CREATE VIEW", "CREATE FUNCTION", "CREATE TRIGGER", "CREATE SERVER"]
)
def test_a_failure_anywhere_in_the_transaction_leaves_nothing(shop: Shop, tag: str) -> None:
    shop.run(
        *EVENTS,
        (
            "create function public.fail() returns event_trigger language plpgsql as $$ begin raise exception "
            "'injected'; end $$"
        ),
        f"create event trigger fail on ddl_command_end when tag in ('{tag}') execute function public.fail()",
    )
    before = shop.traces()
    with pytest.raises(psycopg.errors.RaiseException, match="injected"):
        shop.register()
    assert shop.traces() == before
    shop.run("drop event trigger fail")
    assert not shop.register().already
