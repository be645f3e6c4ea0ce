"""Registration: what it makes, for every kind of key, name and column."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.core.axis import AXIS_MAX, AXIS_MIN
from thermocline.core.names import TableName, parse_table_name
from thermocline.errors import AlreadyRegistered, ChangedDuringRegistration, HeapChanged, UsageError
from thermocline.ops.spanning_table import read_spanning

COLUMNS = """
select a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attcollation, col_description(a.attrelid, a.attnum)
  from pg_attribute a where a.attrelid = '{}'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"""


@pytest.mark.conforms("C-013", "C-016", "C-020", "C-076")
@pytest.mark.parametrize(
    ("kind", "low", "middle", "high", "t"),
    [
        ("smallint", "-10", "0", "10", -10),
        ("integer", "-2147483648", "0", "2147483647", -(2**31)),
        ("bigint", "-9223372036854775807", "0", "5000000000", -(2**63) + 1),
        ("date", "'4713-01-01 BC'", "'2026-01-01'", "'2026-02-01'", -2_440_550),
        ("timestamp", "'2026-01-01 00:00:00.5'", "'2026-01-02'", "'2026-02-01'", 1_767_225_600_500_000),
        ("timestamptz", "'2026-01-01 00:00+02'", "'2026-01-02'", "'2026-02-01'", 1_767_218_400_000_000),
    ],
)
def test_each_tier_key_type_registers_and_reads_through_the_seam(
    shop: Shop, kind: str, low: str, middle: str, high: str, t: int
) -> None:
    shop.run(
        f"create table public.events (k {kind} primary key, v text) partition by range (k)",
        f"create table public.e1 partition of public.events for values from ({low}) to ({middle})",
        f"create table public.e2 partition of public.events for values from ({middle}) to ({high})",
        f"insert into public.events values ({low}, 'low'), ({middle}, 'middle')",
    )
    report = shop.register()
    assert (report.tier_key, report.primary_key, report.partitions, report.already) == ("k", ("k",), 2, False)
    assert shop.rows("select t, s, seam_line from thermocline.cutline") == [(t, None, t)]
    assert shop.rows("select k::text, v from public_all.events order by k") == shop.rows(
        "select k::text, v from public.events order by k"
    )
    assert [step.split(" ")[0] for step in report.steps] == ["lake", "delta", "spill", "foreign", "seam", "cut-line"]
    assert len(list(shop.warehouse.rglob("*.metadata.json"))) == 1


@pytest.mark.conforms("C-021")
@pytest.mark.parametrize("kind", ["integer", "date", "timestamp", "timestamptz"])
def test_children_up_to_minvalue_and_maxvalue_are_taken(shop: Shop, kind: str) -> None:
    middle = "0" if kind == "integer" else "'2026-01-01'"
    shop.run(
        f"create table public.events (k {kind} primary key) partition by range (k)",
        f'create table public."Old; Ones" partition of public.events for values from (minvalue) to ({middle})',
        f"create table public.new partition of public.events for values from ({middle}) to (maxvalue)",
        f"insert into public.events values ({middle})",
    )
    shop.register()
    assert shop.rows("select t from thermocline.cutline") == [(AXIS_MIN,)]
    table = read_spanning(shop.conn, TableName("public", "events"))
    assert table.heap.default_partition == "public__events__spill"
    assert AXIS_MAX > 0
    assert shop.rows("select count(*) from public_all.events") == [(1,)]


NAMES = [
    'we"ird',
    "semi;colon",
    "per%cent%s",
    "$thermocline$",
    "back\\slash",
    "quo'te",
    "Übermaß 日本",
    "dot.ted",
    "{brace}",
    "select",
    "n" * 63,
    "日" * 21,
]


@pytest.mark.conforms("C-024", "O-112")
@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_schema_table_and_columns_works_and_goes_again(shop: Shop, name: str) -> None:
    before = shop.traces()
    ident = sql.Identifier(name)
    heap = sql.Identifier(name, name)
    key = sql.Identifier(f"k{name}"[:60] if name.isascii() else f"{name[:18]}k")
    for statement in (
        "create schema {s}",
        (
            "create table {h} ({k} integer not null, {s} text default 'd', primary key ({k}, {s})) partition by "
            "range ({k})"
        ),
        "create table {s}.p partition of {h} for values from (0) to (100)",
        "insert into {h} ({k}) values (1)",
    ):
        shop.conn.execute(sql.SQL(statement).format(s=ident, h=heap, k=key))
    made = shop.traces()
    table = TableName(name, name)
    report = shop.register(parse_table_name(str(table)))
    seam = sql.Identifier(parse_table_name(report.seam).schema, name)
    for statement in (
        "insert into {} values (2, 'a')",
        "insert into {} values (-5, 'cold')",
        "update {} set {k} = 3 where {k} = 2",
    ):
        shop.conn.execute(sql.SQL(statement).format(seam, k=key))
    assert shop.conn.execute(sql.SQL("select {k} from {} order by 1").format(seam, k=key)).fetchall() == [
        (-5,),
        (1,),
        (3,),
    ]
    shop.conn.execute(sql.SQL("delete from {} where {k} in (1, 3)").format(seam, k=key))
    shop.conn.execute(sql.SQL("delete from {} where {k} < 0").format(heap, k=key))
    shop.conn.execute(sql.SQL("truncate thermocline_delta.{}").format(sql.Identifier(_delta_of(shop))))
    shop.unregister(table)
    assert _without_server(shop.traces()) == _without_server(made)
    shop.conn.execute(sql.SQL("drop schema {} cascade").format(ident))
    assert _without_server(shop.traces()) == _without_server(before)


def _delta_of(shop: Shop) -> str:
    return str(shop.rows("select object_name from thermocline.tables")[0][0])


def _without_server(traces: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The way to the gateway belongs to `init`, and so do the connecting role's login and rights in our own schemas."""
    kept = {trace for trace in traces if trace[0] not in ("server", "mapping", "login")}
    return {trace[:2] if trace[0] in ("schema", "relation") and "thermocline" in trace[1] else trace for trace in kept}


@pytest.mark.conforms("C-024")
def test_tables_whose_names_collide_when_joined_live_side_by_side(shop: Shop) -> None:
    names = [
        "a_b.c",
        "a.b_c",
        "a.c",
        'a."C"',
        "a.c_spill",
        "a.c__spill",
        "a__b.c",
        "a.b__c",
        'a."{}"'.format("x" * 63),
        'a."{}y"'.format("x" * 62),
    ]
    for schema in ("a_b", "a", "a__b"):
        shop.run(f"create schema {schema}")
    for number, name in enumerate(names):
        shop.run(
            f"create table {name} (k integer primary key) partition by range (k)",
            f"create table a.p{number} partition of {name} for values from (0) to (10)",
        )
        shop.register(name)
    assert shop.rows(
        "select count(distinct object_name), count(distinct spill_name), count(distinct lake_location) from "
        "thermocline.tables"
    ) == [(len(names), len(names), len(names))]
    assert shop.rows(
        "select count(*) from pg_class where relnamespace = 'thermocline_delta'::regnamespace and relkind = 'r'"
    ) == [(2 * len(names),)]


@pytest.mark.conforms("C-036", "C-048", "O-117")
def test_the_seam_has_the_heaps_columns_comments_and_defaults_whatever_their_types(shop: Shop) -> None:
    shop.run(
        "create extension citext",
        "create extension hstore",
        "create type public.mood as enum ('sad', 'ok')",
        "create type public.pair as (a integer, b text)",
        "create type public.date as enum ('soon', 'late')",
        "create domain public.region as text check (value <> '')",
        "create domain public.text as integer",
        "create sequence public.numbers",
        """create table public.events (
            id bigint generated by default as identity, gone integer, ts timestamptz not null default now(),
            always integer generated always as identity, n integer default nextval('public.numbers'),
            stored integer generated always as (n * 2) stored, mood public.mood default 'ok', pair public.pair,
            region public.region,
            odd public.text, soon public.date, tags text[], c public.citext, h public.hstore, j jsonb,
            p numeric(10, 2), big numeric,
            fixed char(5), german text collate "de-x-icu", "C" text collate "C", iv interval, r int4range, bits bit(3),
            primary key (id, ts)) partition by range (ts)""",
        "alter table public.events drop column gone",
        "create table public.e1 partition of public.events for values from ('2026-01-01') to ('2126-01-01')",
        "comment on column public.events.mood is 'it''s a mood; 100 %'",
    )
    shop.register()
    heap, seam = (shop.rows(COLUMNS.format(name)) for name in ("public.events", "public_all.events"))
    assert [(row[0], *row[2:]) for row in seam] == [(row[0], *row[2:]) for row in heap]
    held = dict(shop.rows("select name, lake_type || ' ' || form from thermocline.columns"))
    assert (held["odd"], held["soon"], held["region"], held["p"], held["big"]) == (
        *("string text",) * 3,
        "decimal(10, 2) native",
        "string text",
    )
    shop.run(
        "insert into public_all.events (ts, pair, region, odd, soon, tags, c, h, j, p, fixed, german, iv, r, "
        "bits) values"
        " ('2026-05-05', '(1,x)', 'eu', 7, 'late', '{a,NULL}', 'Ci', 'a=>1', '{}', 1.10, 'ab', 'ä', '1 day', "
        "'[1,3)', '101'),"
        " ('1999-05-05', '(1,x)', 'eu', 7, 'late', '{a,NULL}', 'Ci', 'a=>1', '{}', 1.10, 'ab', 'ä', '1 day', "
        "'[1,3)', '101')"
    )
    assert shop.rows("select id, always, n, stored, mood::text, odd from public_all.events order by id") == [
        (1, 1, 1, 2, "ok", 7),
        (2, 2, 2, 4, "ok", 7),
    ]
    assert shop.rows("select id, always, n, stored, mood::text, odd from thermocline_delta.public__events") == [
        (2, 2, 2, 4, "ok", 7)
    ]


@pytest.mark.conforms("C-015")
def test_registering_again_with_the_same_arguments_changes_nothing(shop: Shop) -> None:
    shop.run(*EVENTS)
    first = shop.register(tiering_lag="7d", lake_partition="day")
    before = shop.traces()
    for again in (
        {},
        {"tiering_lag": "1w"},
        {"reclaim_lag": "0", "lake_partition": "day", "seam_schema": "public_all"},
    ):
        report = shop.register(**again)
        assert report.already
        assert (report.cut_line, report.partitions, report.lake) == (first.cut_line, 2, first.lake)
    assert shop.traces() == before


@pytest.mark.conforms("C-015")
@pytest.mark.parametrize(
    ("option", "request_"),
    [
        ("--tiering-lag", {"tiering_lag": "8d"}),
        ("--reclaim-lag", {"reclaim_lag": "8d"}),
        ("--lake-partition", {"lake_partition": "year"}),
        ("--seam-schema", {"seam_schema": "other"}),
    ],
)
def test_registering_again_with_another_argument_is_refused_by_its_name(
    shop: Shop, option: str, request_: dict[str, Any]
) -> None:
    shop.run(*EVENTS)
    shop.register(tiering_lag="7d")
    with pytest.raises(AlreadyRegistered, match=f"registered already, with another {option}") as refused:
        shop.register(**request_)
    assert (refused.value.code, refused.value.exit_code) == ("TC205", 3)


@pytest.mark.conforms("C-018")
def test_lags_are_the_tables_own_and_the_reclaim_lag_adds_nothing_to_the_tiering_lag(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.register(tiering_lag="7d")
    assert shop.rows("select tiering_lag, reclaim_lag from thermocline.tables") == [(604_800_000_000, 0)]


@pytest.mark.conforms("C-034")
def test_a_gap_between_partitions_is_reported(shop: Shop) -> None:
    shop.run(
        *EVENTS, "create table public.e4 partition of public.events for values from ('2026-04-01') to ('2026-05-01')"
    )
    report = shop.register()
    (note,) = report.notes
    assert note.startswith("no partition covers 2026-03-01 00:00:00+00 to 2026-04-01 00:00:00+00")


def test_a_dry_run_tells_the_steps_and_leaves_nothing(shop: Shop) -> None:
    shop.run(*EVENTS)
    before = shop.traces()
    report = shop.register(dry_run=True)
    assert len(report.steps) == 6
    assert shop.traces() == before
    assert shop.unregister(dry_run=True).was_registered is False


@pytest.mark.parametrize("schema", ["", "pg_mine", "x" * 64])
def test_a_seam_schema_that_cannot_be_is_refused(shop: Shop, schema: str) -> None:
    shop.run(*EVENTS)
    with pytest.raises(UsageError, match="cannot be the name of a schema"):
        shop.register(seam_schema=schema)


@pytest.mark.conforms("C-023")
def test_a_table_made_anew_under_the_same_name_is_reported_and_never_adopted(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.register()
    shop.run("drop table public.events cascade", *EVENTS)
    with pytest.raises(AlreadyRegistered, match="was registered, then dropped and made anew"):
        shop.register()
    with pytest.raises(HeapChanged, match="was dropped and made anew since it was registered") as refused:
        read_spanning(shop.conn, TableName("public", "events"))
    assert "unregister and register it again" in refused.value.hint
    assert shop.unregister().was_registered
    assert not shop.register().already


UNWATCHED = (
    "alter event trigger thermocline_alter_start disable; alter event trigger thermocline_alter_end disable;"
    " alter event trigger thermocline_guard disable"
)


@pytest.mark.conforms("C-023", "C-166")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            f"{UNWATCHED}; alter table public.events add column w integer",
            "Column w of public.events is not as it was registered",
        ),
        (
            f"{UNWATCHED}; alter table public.events rename column v to w",
            "Column w of public.events is not as it was registered",
        ),
        (
            "alter table public.events detach partition thermocline_delta.public__events__spill",
            "is no longer the DEFAULT partition",
        ),
        (
            f"{UNWATCHED}; alter table public.events enable row level security",
            "has row-level security since it was registered",
        ),
        (
            "alter table public.events drop constraint events_pkey, add constraint k primary key (ts, id)",
            "The primary key of public.events is not the one that was registered",
        ),
    ],
)
def test_a_change_of_the_heap_that_cannot_be_followed_is_reported(shop: Shop, change: str, sentence: str) -> None:
    shop.run(*EVENTS)
    shop.register()
    assert read_spanning(shop.conn, TableName("public", "events")).registered.tier_key == "ts"
    shop.run(change)
    with pytest.raises(HeapChanged, match=sentence) as refused:
        read_spanning(shop.conn, TableName("public", "events"))
    assert refused.value.exit_code == 3


def test_a_column_dropped_and_added_again_under_its_name_is_reported(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.register()
    shop.run(
        UNWATCHED,
        "drop view public_all.events",
        "alter table public.events drop column v",
        "alter table public.events add column v integer",
    )
    with pytest.raises(HeapChanged, match=r"Column v of public\.events"):
        read_spanning(shop.conn, TableName("public", "events"))


def test_a_partition_made_while_registering_waits_or_stops_the_registration(shop: Shop) -> None:
    shop.run(*EVENTS)
    other = shop.session(autocommit=False)
    other.execute("create table public.e0 partition of public.events for values from ('2025-12-01') to ('2026-01-01')")
    before = shop.traces()
    with pytest.raises(Exception, match=r"was not granted within 300 ms; nothing was changed") as refused:
        shop.register()
    assert not isinstance(refused.value, psycopg.Error | ChangedDuringRegistration)
    assert shop.traces() == before
    other.commit()
    shop.register()
    assert shop.rows("select t from thermocline.cutline") == [(1_764_547_200_000_000,)]
