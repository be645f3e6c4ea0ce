"""Changes of the heap's columns: the same ALTER TABLE on the heap and on the twin, then the same rows from every tier, before and after the
lake itself has followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.clones import Original, original
from tests.gateway.whole_lake import person, raw
from tests.twin import Spanning, run

from thermocline.errors import HeapChanged, SchemaNotFollowed
from thermocline.ops import tier as tier_module
from thermocline.ops.maintain.run import PassWish, run_pass
from thermocline.ops.verify import verify
from thermocline.pg import connect
from thermocline.postgres_server import PostgresServer
from thermocline.worker.loop import Worker

TABLE = """
create table {schema}.events (
    id integer not null,
    ts timestamptz not null,
    v integer check (v >= 0),
    note text default 'd',
    amount numeric(8, 2),
    doc jsonb,
    small smallint,
    rate real,
    code varchar(10),
    primary key (id, ts)
)"""
PARTITIONS = """
create table public.events_2026_01 partition of public.events for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.events_2026_02 partition of public.events for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
create table public.events_2026_03 partition of public.events for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
"""
ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '1 day', i, 'row ' || i, i / 7.0, jsonb_build_object('i', i), i, i / 3.0,
       'c' || i
  from generate_series(1, 70) i
"""
UNWATCHED = "alter event trigger thermocline_alter_start disable; alter event trigger thermocline_alter_end disable"


@pytest.fixture(scope="module")
def tiered(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Original]:
    """January and February in the lake, March in the heap."""
    choices: dict[str, Any] = {"table": TABLE, "partitions": PARTITIONS, "rows": ROWS}
    with original(postgres, template, tmp_path_factory.mktemp("lake"), **choices) as made:
        yield made


@pytest.fixture
def spanning(tiered: Original) -> Iterator[Spanning]:
    with tiered.clone() as made:
        # A row that only the lake holds, one with a correction, a historical one in the spill, a hot one: each tier has something to say.
        made.both("update events set note = 'corrected' where id = 7 returning *")
        made.both("insert into events (id, ts, v) values (500, '2025-06-01', 5) returning *")
        yield made


def write_everywhere(spanning: Spanning, assignment: str, number: int) -> None:
    """The assignment on a lake row, a corrected one, one in the spill and a hot one; then all rows agree."""
    for key in (3 + number, 7, 500, 65 + number):
        spanning.both(f"update events set {assignment} where id = {key} returning id")
    spanning.assert_same_rows()


def settle(spanning: Spanning) -> None:
    """The lake follows and takes in what waits; verify finds nothing."""
    spanning.fold()
    spanning.assert_same_rows()
    report = verify(spanning.dsn, spanning.name)
    assert not report.problems
    assert all(part.problem is None for part in report.ranges)


ADDED = (
    ("a1 integer", "a1 = 5"),
    ("a2 integer default 7", "a2 = null"),
    ("a3 text default 'it''s {columns}' not null", "a3 = 'x'"),
    ("a4 timestamptz default now()", "a4 = '2020-02-02 02:02+02'"),
    ("a5 boolean not null default true", "a5 = false"),
    ("a6 numeric(30, 3) default 1.5", "a6 = -2.125"),
    ("a7 bytea default '\\x00ff27'", "a7 = '\\x01'"),
    ("a8 text[] default '{a,null}'", "a8 = array['z']"),
    ("a9 uuid default 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a9 = null"),
    ("b1 time default '12:30:00.25'", "b1 = '00:00'"),
    ("b2 date default '2026-02-03'", "b2 = null"),
    ("b3 double precision default 'NaN'", "b3 = 0.1"),
    ("b4 jsonb default '{\"k\": 1}'", "b4 = '[]'"),
    ("b5 interval default '1 mon 2 days'", "b5 = '1 hour'"),
    ("b6 numeric default 1.10", "b6 = 3"),
    ("b7 real default 0.1", "b7 = 2.5"),
    ("ts_month integer default 1", "ts_month = 2"),
)


@pytest.mark.conforms("C-161")
def test_an_added_column_reaches_every_tier_before_the_next_write_and_old_rows_read_its_default(spanning: Spanning) -> None:
    for number, (column, assignment) in enumerate(ADDED):
        spanning.alter(f"add column {column}")
        spanning.assert_same_rows()
        write_everywhere(spanning, assignment, number % 4)
    written = "(501, '2025-07-01', 1, 'y', null), (502, '2026-03-20', 2, 'z', '2026-01-01')"
    spanning.both(f"insert into events (id, ts, a1, a3, a4) values {written} returning id, a2, a5, a6, b7")
    settle(spanning)
    names = [column.split()[0] for column, _ in ADDED]
    for name in names:
        spanning.both(f"select id, {name}::text from events where {name} is not null and ts < '2026-02-10'")
    spanning.both("select count(*), sum(a2), min(b2), max(a6) from events where a2 = 7 and a5 and b2 = '2026-02-03'")
    write_everywhere(spanning, "a2 = coalesce(a2, 0) + 1, b7 = b7 * 2", 5)
    settle(spanning)


@pytest.mark.conforms("C-161")
def test_the_transaction_that_adds_a_column_writes_it_at_once_on_both_names(spanning: Spanning) -> None:
    for session, table in ((spanning.session(), "public.events"), (spanning.session("twin"), "twin.events")):
        session.execute(f"alter table {table} add column extra integer default 3".encode())
        session.execute(b"update events set extra = 4 where id in (2, 7, 500, 66)")
        session.execute(f"insert into {table} (id, ts, extra) values (600, '2025-01-01', 9), (601, '2026-03-09', 10)".encode())
        session.commit()
    spanning.assert_same_rows()
    for session, table in ((spanning.session(), "public.events"), (spanning.session("twin"), "twin.events")):
        session.execute(f"alter table {table} add column gone integer default 3".encode())
        session.execute(b"update events set gone = 4 where id = 2")
        session.rollback()
    spanning.assert_same_rows()
    settle(spanning)


@pytest.mark.conforms("C-162")
def test_a_dropped_column_leaves_both_tiers_readable_and_one_added_again_shows_no_old_values(spanning: Spanning) -> None:
    snapshot = spanning.query("select s from thermocline.cutline")[0][0]
    spanning.alter("drop column doc")
    spanning.assert_same_rows()
    write_everywhere(spanning, "v = 1", 0)
    spanning.alter("add column doc jsonb")
    spanning.assert_same_rows()
    assert spanning.both("select count(*) from events where doc is not null") == [(0,)]
    settle(spanning)
    write_everywhere(spanning, "doc = '{\"new\": 1}'", 1)
    spanning.alter("drop column doc, add column doc text default 'third'")
    spanning.assert_same_rows()
    settle(spanning)
    assert spanning.both("select distinct doc from events") == [("third",)]
    kept = spanning.spark().sql(f"select doc from thermocline.public.events version as of {snapshot} where id = 3").collect()
    assert kept[0][0] == '{"i": 3}'


@pytest.mark.conforms("C-163")
def test_a_renamed_column_keeps_its_cold_values_keys_and_swapped_names_included(spanning: Spanning) -> None:
    spanning.alter("rename column note to remark")
    spanning.assert_same_rows()
    write_everywhere(spanning, "remark = remark || '!'", 0)
    for step in ("rename column remark to spare", "rename column code to remark", "rename column spare to code"):
        spanning.alter(step)
    spanning.assert_same_rows()
    for step in ("rename column id to ident", "rename column ident to id", "rename column ts to at"):
        spanning.alter(step)
        spanning.assert_same_rows()
    write_everywhere(spanning, "remark = 'r', code = 'c'", 1)
    settle(spanning)
    spanning.both("select id, at, remark, code from events where at < '2026-02-10' and remark = 'c9'")
    spanning.tier()
    write_everywhere(spanning, "remark = 's'", 2)
    settle(spanning)


@pytest.mark.conforms("C-164")
def test_widened_types_are_carried_over_to_the_value(spanning: Spanning) -> None:
    changes = (
        ("v", "bigint", "5000000000"),
        ("small", "integer", "70000"),
        ("rate", "double precision", "0.1"),
        ("amount", "numeric(20, 2)", "123456789012.34"),
        ("code", "varchar(40)", "'longer than it used to be'"),
        ("code", "text", "'longer than it used to be, by far and by more'"),
        ("small", "bigint", "-7000000000"),
        ("id", "bigint", "id"),
    )
    for number, (column, kind, value) in enumerate(changes):
        spanning.alter(f"alter column {column} type {kind}")
        spanning.assert_same_rows()
        if value != column:
            write_everywhere(spanning, f"{column} = {value}", number % 4)
    spanning.both("insert into events (id, ts) values (9000000000, '2025-03-01') returning *")
    settle(spanning)
    spanning.both("select id, v, rate, amount from events where v = 5000000000 or rate = 0.1 or amount > 1000 or small < 0")
    spanning.both("select count(*) from events where rate = (10 / 3.0)::real")
    spanning.tier()
    spanning.both("update events set v = v + 1 where id < 12 returning *")
    settle(spanning)


@pytest.mark.conforms("C-164", "C-166", "C-171")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("alter column doc type text", "column doc changed from jsonb to text"),
        ("alter column v type smallint", "column v changed from integer to smallint"),
        ("alter column code type varchar(5)", r"column code changed from character varying\(10\) to character varying\(5\)"),
        ("alter column amount type numeric(8, 3)", r"column amount changed from numeric\(8,2\) to numeric\(8,3\)"),
        ("alter column rate type numeric", "column rate changed from real to numeric"),
        ('alter column note type text collate "POSIX"', "column note has another collation"),
        ("add column price money", "the text form of type money does not read back the same everywhere"),
        ("add column luck double precision default random()", "its default is not the same for every row"),
        ("add column twice integer generated always as (v * 2) stored", "rows in the lake would need a value of their own each"),
        ("add column number bigint generated by default as identity", "rows in the lake would need a value of their own each"),
        ("add column _op integer", "its name is one of Thermocline's own"),
        ("drop constraint events_pkey", "its primary key is gone"),
        ("drop column id", "column id was dropped; it is part of the key"),
    ],
)
def test_a_change_the_lake_cannot_follow_is_refused_by_name_and_leaves_everything_as_it_was(
    unchanged: Spanning, change: str, sentence: str
) -> None:
    before = unchanged.query("select c.name, c.pg_type, c.field_id from thermocline.columns c order by position")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=sentence):
        unchanged.seam.execute(f"alter table public.events {change}".encode())
    unchanged.assert_same_rows()
    assert unchanged.query("select c.name, c.pg_type, c.field_id from thermocline.columns c order by position") == before


@pytest.fixture(scope="module")
def unchanged(tiered: Original) -> Iterator[Spanning]:
    """One clone for all the changes that are refused."""
    with tiered.clone() as made:
        yield made


@pytest.mark.conforms("C-164")
def test_a_change_nobody_could_refuse_stops_this_table_alone_until_it_is_undone(spanning: Spanning) -> None:
    spanning.seam.execute(UNWATCHED.encode())
    spanning.seam.execute("alter table public.events add column price money")
    worker = Worker(spanning.dsn, spanning.settings)
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        for _ in range(2):  # a second worker finds the same: it is read off the table, not remembered
            assert not worker.run_cycle(conn)
            sentence = spanning.query("select sentence, problem_code from thermocline.cycles")[0]
            assert "column price money was added" in sentence[0]
            assert sentence[1] == "TC208"
            worker = Worker(spanning.dsn, spanning.settings)
        spanning.assert_same_rows()
        assert run(spanning.seam, "update events set v = 1 where id = 3").state == "55000"
        spanning.seam.execute("alter table public.events drop column price")
        assert worker.run_cycle(conn)
    assert spanning.query("select problem_code from thermocline.cycles") == [(None,)]
    write_everywhere(spanning, "v = 2", 1)


@pytest.mark.conforms("C-161")
def test_without_event_triggers_no_new_value_is_lost_before_the_next_cycle_follows(spanning: Spanning) -> None:
    spanning.seam.execute(UNWATCHED.encode())
    spanning.alter("add column extra integer default 4")
    spanning.alter("rename column note to remark")
    for statement in (
        "insert into public.events (id, ts, extra) values (700, '2025-01-01', 1)",
        "update public.events set extra = 2 where id = 500",
        "update public_all.events set v = 3 where id = 4",
    ):
        assert run(spanning.seam, statement).state in ("55000", "42703"), statement
    for path in ("public.events", "twin.events"):
        spanning.seam.execute(f"update {path} set extra = 8 where id = 66".encode())
    spanning.tier()
    spanning.assert_same_rows()
    write_everywhere(spanning, "extra = 5, remark = 'x'", 0)
    settle(spanning)


@pytest.mark.conforms("C-047")
def test_views_on_the_seam_and_grants_on_it_outlive_every_change(spanning: Spanning) -> None:
    role = f"reader_{spanning.dsn.split('clone_')[1][:8]}"
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        conn.execute(f"create role {role}".encode())
        try:
            conn.execute(f"grant select on public_all.events to {role}; grant update (v, note) on public_all.events to {role}".encode())
            for step in ("add column extra integer", "drop column doc", "alter column v type bigint", "rename column note to remark"):
                conn.execute(f"alter table public.events {step}".encode())
                conn.execute(f"alter table twin.events {step}".encode())
            spanning.assert_same_rows()
            rights = (
                "select has_table_privilege(%s, 'public_all.events', 'select'), has_column_privilege(%s, 'public_all.events', %s, 'update')"
            )
            for column in ("v", "remark"):
                assert conn.execute(rights, [role, role, column]).fetchone() == (True, True)
            assert conn.execute(rights, [role, role, "code"]).fetchone() == (True, False)

            conn.execute("create view public.recent as select id, ts, code, small from public_all.events where id > 2")
            conn.execute(f"grant select on public.recent to {role}".encode())
            before = conn.execute("select id, ts, code from public.recent order by id").fetchall()
            for step in (
                "drop column small",
                "add column small text default 's'",
                "rename column code to label",
                "add column more integer",
            ):
                conn.execute(f"alter table public.events {step}".encode())
                conn.execute(f"alter table twin.events {step}".encode())
            conn.execute(f"set role {role}".encode())
            assert conn.execute("select id, ts, code from public.recent order by id").fetchall() == before
            assert conn.execute("select count(*) from public.recent where small is not null").fetchone() == (0,)
            conn.execute("reset role")
            named = "id, ts, v, remark, amount, small, rate, label, extra, more"
            assert (
                conn.execute(f"(select {named} from twin.events except all select {named} from public_all.events)".encode()).fetchall()
                == []
            )
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=r'cannot alter type of column "rate" of public'):
                conn.execute("alter table public.events alter column rate type double precision")
            conn.execute("drop view public.recent")
            spanning.alter("add column last integer")
            spanning.assert_same_rows()
            settle(spanning)
        finally:
            conn.execute("reset role")
            conn.execute(f"drop owned by {role}; drop role {role}".encode())


def test_whole_queries_at_the_gateway_never_take_one_column_for_another(spanning: Spanning) -> None:
    asked = ("select note, code, v from events", "select count(*), sum(v), min(note), max(code) from events where ts < '2026-02-10'")
    with person(spanning) as conn:

        def compare() -> None:
            for statement in asked:
                assert raw(conn, statement) == raw(spanning.twin, statement), statement

        compare()
        for step in (
            "rename column note to spare",
            "rename column code to note",
            "alter column note type text",
            "rename column spare to code",
        ):
            spanning.alter(step)
        compare()
        spanning.fold()
        compare()
        spanning.alter("drop column code, add column code text default 'new'")
        compare()
        spanning.fold()
        compare()


def test_compaction_keeps_what_old_files_read_as(spanning: Spanning) -> None:
    spanning.alter("add column extra integer default 7, add column at date default '2026-02-03'")
    spanning.both("update events set extra = null, at = null where id in (4, 40) returning id")
    settle(spanning)
    spanning.both("update events set v = 3 where id in (5, 41) returning id")
    settle(spanning)
    wish = PassWish(operations=("compact",))
    (told,) = run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, wish=wish).outcomes
    assert told.status == "done", told
    spanning.assert_same_rows()
    settle(spanning)
    rows = spanning.spark().sql("select extra, count(*) from thermocline.public.events group by extra").collect()
    assert {row[0] for row in rows} == {7, None}


def test_a_seam_dropped_by_cascade_comes_back_with_the_next_change(spanning: Spanning) -> None:
    spanning.seam.execute("drop view public_all.events")
    spanning.alter("add column extra integer default 2")
    write_everywhere(spanning, "extra = 3", 0)


@pytest.mark.conforms("C-161")
def test_a_change_while_a_partition_is_on_its_way_is_followed_by_the_next_cycle(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning.seam.execute(
        "create table public.events_2026_04 partition of public.events for values from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00')"
    )
    spanning.both("insert into events (id, ts) values (800, '2026-04-10') returning *")

    def change(point: str) -> None:
        if point == "intent":
            monkeypatch.setattr(tier_module, "fault_point", lambda _: None)
            spanning.alter("add column extra integer default 6")
            spanning.both("update events set extra = 7 where id = 66 returning *")

    monkeypatch.setattr(tier_module, "fault_point", change)
    with pytest.raises(SchemaNotFollowed, match=r"The columns of public\.events changed meanwhile"):
        spanning.tier()
    spanning.assert_same_rows()
    assert len(spanning.tier().moved) == 1
    spanning.assert_same_rows()
    settle(spanning)


def test_a_reader_whose_snapshot_is_older_than_the_change_reads_the_same_rows(spanning: Spanning) -> None:
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select 1 from pg_class limit 1")
    expected = spanning.query("select id, v, note from events order by id")
    spanning.alter("add column extra integer default 6")
    spanning.both("update events set v = 9, extra = 1 where id in (4, 66) returning *")
    settle(spanning)
    assert reader.execute("select id, v, note from events order by id").fetchall() == expected
    assert reader.execute("select distinct extra from events").fetchall() == [(6,)]


def test_defaults_comments_and_new_values_of_an_enum_are_followed(spanning: Spanning) -> None:
    for schema in ("public", "twin"):
        spanning.seam.execute(f"create type {schema}.mood as enum ('calm', 'glad')".encode())
        spanning.seam.execute(f"alter table {schema}.events add column mood {schema}.mood default 'calm'".encode())
    settle_named = "select id, mood::text from {} order by id"
    for schema in ("public", "twin"):
        spanning.seam.execute(f"alter type {schema}.mood add value 'wild'".encode())
    for path in ("public_all.events", "twin.events"):
        spanning.seam.execute(f"update {path} set mood = 'wild' where id in (4, 66)".encode())
    spanning.fold()
    assert spanning.query(settle_named.format("public_all.events")) == spanning.query(settle_named.format("twin.events"))
    spanning.alter("drop column mood")
    spanning.alter("alter column note set default 'other', alter column v set default 3")
    spanning.seam.execute("comment on column public.events.v is 'volume'")
    spanning.both("insert into events (id, ts) values (900, '2025-02-02') returning *")
    spanning.alter("alter column note drop default")
    spanning.both("insert into events (id, ts) values (901, '2025-02-02'), (902, '2026-03-03') returning *")
    assert spanning.query("select col_description('public_all.events'::regclass, 3)") == [("volume",)]


def test_a_table_that_keeps_its_heap_follows_too(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    choices: dict[str, Any] = {"table": TABLE, "partitions": PARTITIONS, "rows": ROWS, "keep_heap": True, "cycles": 1}
    with original(postgres, template, tmp_path_factory.mktemp("kept"), **choices) as made, made.clone() as spanning:
        for change, assignment in (
            ("add column extra integer default 5", "extra = 6"),
            ("drop column doc", "v = 7"),
            ("alter column v type bigint", "v = 6000000000"),
            ("rename column note to remark", "remark = 'r'"),
        ):
            spanning.alter(change)
            spanning.both(f"update public.events set {assignment} where id in (3, 8)".replace("public.", ""))
            spanning.assert_same_rows()
        settle(spanning)


def test_the_heap_changed_refusal_names_what_changed(spanning: Spanning) -> None:
    spanning.seam.execute(UNWATCHED.encode())
    spanning.seam.execute("alter table public.events add column luck double precision default random()")
    with pytest.raises(HeapChanged, match=r"column luck double precision was added; its default is not the same for every row"):
        spanning.tier()
