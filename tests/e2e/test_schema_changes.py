"""Changes of the heap's columns: the same ALTER TABLE on the heap and on the twin, then the same rows from every tier,
before and after the lake itself has followed."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest
from tests.cloned_tables import make_clonable
from tests.e2e.schema_change_table import PARTITIONS, ROWS, TABLE, settle, write_everywhere
from tests.gateway.whole_lake import person, raw
from tests.twin import Spanning

from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer

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
def test_an_added_column_reaches_every_tier_before_the_next_write_and_old_rows_read_its_default(
    changing: Spanning,
) -> None:
    for number, (column, assignment) in enumerate(ADDED):
        changing.alter(f"add column {column}")
        changing.assert_same_rows()
        write_everywhere(changing, assignment, number % 4)
    written = "(501, '2025-07-01', 1, 'y', null), (502, '2026-03-20', 2, 'z', '2026-01-01')"
    changing.both(f"insert into events (id, ts, a1, a3, a4) values {written} returning id, a2, a5, a6, b7")
    settle(changing)
    names = [column.split()[0] for column, _ in ADDED]
    for name in names:
        changing.both(f"select id, {name}::text from events where {name} is not null and ts < '2026-02-10'")
    changing.both("select count(*), sum(a2), min(b2), max(a6) from events where a2 = 7 and a5 and b2 = '2026-02-03'")
    write_everywhere(changing, "a2 = coalesce(a2, 0) + 1, b7 = b7 * 2", 5)
    settle(changing)


def test_a_using_that_only_spells_the_cast_out_is_followed_and_a_checked_domain_too(changing: Spanning) -> None:
    changing.seam.execute("create domain public.positive as integer check (value > 0)")
    changing.alter(
        "alter column v type bigint using v::bigint, alter rate set data type double precision USING rate :: "
        "DOUBLE PRECISION"
    )
    changing.alter("add column p public.positive")
    changing.assert_same_rows()
    write_everywhere(changing, "v = v + 3000000000, rate = 0.1, p = 4", 1)
    settle(changing)


@pytest.mark.conforms("C-161")
def test_the_transaction_that_adds_a_column_writes_it_at_once_on_both_names(changing: Spanning) -> None:
    for session, table in ((changing.session(), "public.events"), (changing.session("twin"), "twin.events")):
        session.execute(f"alter table {table} add column extra integer default 3".encode())
        session.execute(b"update events set extra = 4 where id in (2, 7, 500, 66)")
        session.execute(
            f"insert into {table} (id, ts, extra) values (600, '2025-01-01', 9), (601, '2026-03-09', 10)".encode()
        )
        session.commit()
    changing.assert_same_rows()
    for session, table in ((changing.session(), "public.events"), (changing.session("twin"), "twin.events")):
        session.execute(f"alter table {table} add column gone integer default 3".encode())
        session.execute(b"update events set gone = 4 where id = 2")
        session.rollback()
    changing.assert_same_rows()
    settle(changing)


@pytest.mark.conforms("C-162")
def test_a_dropped_column_leaves_both_tiers_readable_and_one_added_again_shows_no_old_values(
    changing: Spanning,
) -> None:
    snapshot = changing.query("select s from thermocline.cutline")[0][0]
    changing.alter("drop column doc")
    changing.assert_same_rows()
    write_everywhere(changing, "v = 1", 0)
    changing.alter("add column doc jsonb")
    changing.assert_same_rows()
    assert changing.both("select count(*) from events where doc is not null") == [(0,)]
    settle(changing)
    write_everywhere(changing, "doc = '{\"new\": 1}'", 1)
    changing.alter("drop column doc, add column doc text default 'third'")
    changing.assert_same_rows()
    settle(changing)
    assert changing.both("select distinct doc from events") == [("third",)]
    kept = (
        changing.spark()
        .sql(f"select doc from thermocline.public.events version as of {snapshot} where id = 3")
        .collect()
    )
    assert kept[0][0] == '{"i": 3}'


@pytest.mark.conforms("C-163")
def test_a_renamed_column_keeps_its_cold_values_keys_and_swapped_names_included(changing: Spanning) -> None:
    changing.alter("rename column note to remark")
    changing.assert_same_rows()
    write_everywhere(changing, "remark = remark || '!'", 0)
    for step in ("rename column remark to spare", "rename column code to remark", "rename column spare to code"):
        changing.alter(step)
    changing.assert_same_rows()
    for step in ("rename column id to ident", "rename column ident to id", "rename column ts to at"):
        changing.alter(step)
        changing.assert_same_rows()
    write_everywhere(changing, "remark = 'r', code = 'c'", 1)
    settle(changing)
    changing.both("select id, at, remark, code from events where at < '2026-02-10' and remark = 'c9'")
    changing.tier()
    write_everywhere(changing, "remark = 's'", 2)
    settle(changing)


@pytest.mark.conforms("C-164")
def test_widened_types_are_carried_over_to_the_value(changing: Spanning) -> None:
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
        changing.alter(f"alter column {column} type {kind}")
        changing.assert_same_rows()
        if value != column:
            write_everywhere(changing, f"{column} = {value}", number % 4)
    changing.both("insert into events (id, ts) values (9000000000, '2025-03-01') returning *")
    settle(changing)
    changing.both(
        "select id, v, rate, amount from events where v = 5000000000 or rate = 0.1 or amount > 1000 or small < 0"
    )
    changing.both("select count(*) from events where rate = (10 / 3.0)::real")
    changing.tier()
    changing.both("update events set v = v + 1 where id < 12 returning *")
    settle(changing)


@pytest.mark.conforms("C-047")
def test_views_on_the_seam_and_grants_on_it_outlive_every_change(changing: Spanning) -> None:
    role = f"reader_{changing.dsn.split('clone_')[1][:8]}"
    with closing(connect(changing.dsn, autocommit=True)) as conn:
        conn.execute(f"create role {role}".encode())
        try:
            conn.execute(
                (
                    f"grant select on public_all.events to {role}; grant update (v, note) on public_all.events to "
                    f"{role}"
                ).encode()
            )
            for step in (
                "add column extra integer",
                "drop column doc",
                "alter column v type bigint",
                "rename column note to remark",
            ):
                conn.execute(f"alter table public.events {step}".encode())
                conn.execute(f"alter table twin.events {step}".encode())
            changing.assert_same_rows()
            rights = (
                "select has_table_privilege(%s, 'public_all.events', 'select'), has_column_privilege(%s, "
                "'public_all.events', %s, 'update')"
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
                conn.execute(
                    f"(select {named} from twin.events except all select {named} from public_all.events)".encode()
                ).fetchall()
                == []
            )
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match=r'cannot alter type of column "rate" of public'
            ):
                conn.execute("alter table public.events alter column rate type double precision")
            conn.execute("drop view public.recent")
            changing.alter("add column last integer")
            changing.assert_same_rows()
            settle(changing)
        finally:
            conn.execute("reset role")
            conn.execute(f"drop owned by {role}; drop role {role}".encode())


def test_whole_queries_at_the_gateway_never_take_one_column_for_another(changing: Spanning) -> None:
    asked = (
        "select note, code, v from events",
        "select count(*), sum(v), min(note), max(code) from events where ts < '2026-02-10'",
    )
    with person(changing) as conn:

        def compare() -> None:
            for statement in asked:
                assert raw(conn, statement) == raw(changing.twin, statement), statement

        compare()
        for step in (
            "rename column note to spare",
            "rename column code to note",
            "alter column note type text",
            "rename column spare to code",
        ):
            changing.alter(step)
        compare()
        changing.fold()
        compare()
        changing.alter("drop column code, add column code text default 'new'")
        compare()
        changing.fold()
        compare()


def test_compaction_keeps_what_old_files_read_as(changing: Spanning) -> None:
    changing.alter("add column extra integer default 7, add column at date default '2026-02-03'")
    changing.both("update events set extra = null, at = null where id in (4, 40) returning id")
    settle(changing)
    changing.both("update events set v = 3 where id in (5, 41) returning id")
    settle(changing)
    request = PassRequest(operations=("compact",))
    (told,) = run_pass(
        changing.dsn, changing.name, settings=changing.settings, spark=changing.spark, request=request
    ).outcomes
    assert told.status == "done", told
    changing.assert_same_rows()
    settle(changing)
    rows = changing.spark().sql("select extra, count(*) from thermocline.public.events group by extra").collect()
    assert {row[0] for row in rows} == {7, None}


def test_a_seam_dropped_by_cascade_comes_back_with_the_next_change(changing: Spanning) -> None:
    changing.seam.execute("drop view public_all.events")
    changing.alter("add column extra integer default 2")
    write_everywhere(changing, "extra = 3", 0)
    changing.assert_same_rows()


def test_a_reader_whose_snapshot_is_older_than_the_change_reads_the_same_rows(changing: Spanning) -> None:
    reader = changing.session()
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select 1 from pg_class limit 1")
    expected = changing.query("select id, v, note from events order by id")
    changing.alter("add column extra integer default 6")
    changing.both("update events set v = 9, extra = 1 where id in (4, 66) returning *")
    settle(changing)
    assert reader.execute("select id, v, note from events order by id").fetchall() == expected
    assert reader.execute("select distinct extra from events").fetchall() == [(6,)]


def test_defaults_comments_and_new_values_of_an_enum_are_followed(changing: Spanning) -> None:
    for schema in ("public", "twin"):
        changing.seam.execute(f"create type {schema}.mood as enum ('calm', 'glad')".encode())
        changing.seam.execute(f"alter table {schema}.events add column mood {schema}.mood default 'calm'".encode())
    settle_named = "select id, mood::text from {} order by id"
    for schema in ("public", "twin"):
        changing.seam.execute(f"alter type {schema}.mood add value 'wild'".encode())
    for path in ("public_all.events", "twin.events"):
        changing.seam.execute(f"update {path} set mood = 'wild' where id in (4, 66)".encode())
    changing.fold()
    assert changing.query(settle_named.format("public_all.events")) == changing.query(
        settle_named.format("twin.events")
    )
    changing.alter("drop column mood")
    changing.alter("alter column note set default 'other', alter column v set default 3")
    changing.seam.execute("comment on column public.events.v is 'volume'")
    changing.both("insert into events (id, ts) values (900, '2025-02-02') returning *")
    changing.alter("alter column note drop default")
    changing.both("insert into events (id, ts) values (901, '2025-02-02'), (902, '2026-03-03') returning *")
    assert changing.query("select col_description('public_all.events'::regclass, 3)") == [("volume",)]


def test_a_table_that_keeps_its_heap_follows_too(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    choices: dict[str, Any] = {"table": TABLE, "partitions": PARTITIONS, "rows": ROWS, "keep_heap": True, "cycles": 1}
    with (
        make_clonable(postgres, template, tmp_path_factory.mktemp("kept"), **choices) as made,
        made.clone() as changing,
    ):
        for change, assignment in (
            ("add column extra integer default 5", "extra = 6"),
            ("drop column doc", "v = 7"),
            ("alter column v type bigint", "v = 6000000000"),
            ("rename column note to remark", "remark = 'r'"),
        ):
            changing.alter(change)
            changing.both(f"update public.events set {assignment} where id in (3, 8)".replace("public.", ""))
            changing.assert_same_rows()
        settle(changing)
