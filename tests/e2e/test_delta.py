"""The delta as users may rely on it: typed, separate for each table, and read at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb
from tests.gateway.whole_lake import person
from tests.twin import Spanning

from thermocline.core.names import parse_table_name
from thermocline.gateway import metrics
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.runtime.pg import connect_as_typed as connect

TYPES = """
select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull from pg_attribute a
 where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum
"""
WIDE = """
create table {schema}.events (id numeric(38,0) not null, ts timestamptz not null, amount numeric(38,12),
    plain numeric, span interval,
    tags text[], raw bytea, primary key (id, ts))"""
VALUES = [
    (
        "(12345678901234567890123456789012345678, '2026-01-05', 12345678901234567890123456.789012345678, 1.10, "
        "'1 mon', '{a,NULL}', '\\x00ff')"
    ),
    "(-1, '2026-01-06', -0.000000000001, 123456789012345678901234567890.12345678901234567890, '-3 days', '{}', '')",
    "(2, '2026-04-06', 0.5, 'NaN', '00:00:00.000001', null, null)",
]


@pytest.mark.conforms("C-124")
def test_the_delta_has_the_tables_types_and_keeps_every_digit_into_the_lake(
    make_spanning: Callable[..., Spanning],
) -> None:
    """A row that moves leaves a tombstone under its old tier key, and its new image knows that key. All types are in
    `test_types.py`."""
    spanning = make_spanning(table=WIDE, rows=f"insert into events values {', '.join(VALUES)}")
    heap, delta = (
        spanning.seam.execute(TYPES, [name]).fetchall()
        for name in ("public.events", "thermocline_delta.public__events")
    )
    assert [(name, kind) for name, kind, _ in delta[: len(heap)]] == [(name, kind) for name, kind, _ in heap]
    assert [(name, kind) for name, kind, _ in delta[len(heap) :]] == [
        ("_op", "smallint"),
        ("_version", "bigint"),
        ("_folded", "xid8"),
        ("_old_key", "timestamp with time zone"),
    ]
    spanning.tier()
    spanning.both(
        "update events set amount = amount * 3 + 0.000000000007, plain = plain + 1e-20 where ts < "
        "'2026-02-01' returning *"
    )
    spanning.both("update events set ts = ts + interval '1 day' where id = -1 returning *")
    old_and_new = (
        "select _op, ts = '2026-01-06', _old_key = '2026-01-06' from thermocline_delta.public__events where id = "
        "-1 order by ts"
    )
    assert spanning.query(old_and_new) == [(1, True, None), (0, False, True)]
    # However often it moves, the place where the lake has it is remembered.
    spanning.both("update events set ts = ts + interval '1 day', plain = 7 where id = -1 returning *")
    spanning.both("update events set plain = 8 where id = -1")
    places = (
        "select ts::date::text, _old_key::date::text from thermocline_delta.public__events where id = -1 and _op = 0"
    )
    assert spanning.query(places) == [("2026-01-08", "2026-01-06")]
    spanning.assert_same_rows()
    before = spanning.query("select events::text from events order by 1")
    spanning.fold()
    assert spanning.query("select events::text from events order by 1") == before
    spanning.assert_same_rows()


@pytest.mark.conforms("C-123")
def test_a_correction_is_read_by_everybody_the_moment_it_commits(spanning: Spanning) -> None:
    """Through the seam, in Postgres' session and in the gateway's, with its engine too; bulk ingest comes with its own
    issue."""
    spanning.tier()
    writer, reader, fixed = spanning.session(), spanning.session(autocommit=True), spanning.session()
    fixed.execute("set transaction isolation level repeatable read")
    look = "select count(*), sum(v) from events where v >= 4711"
    with person(spanning) as relayed, person(spanning, engine="duckdb") as whole:
        everybody = (reader, fixed, relayed, whole)
        for path, change, after in (
            ("public_all, public", "update events set v = 4711 where id = 5", (1, 4711)),
            ("public", "insert into events (id, ts, v) values (900, '2026-01-03 00:00+00', 5000)", (2, 9711)),
            ("public_all, public", "delete from events where id = 5", (1, 5000)),
        ):
            writer.execute("select set_config('search_path', %s, false)", [path])
            before = [conn.execute(look).fetchall() for conn in everybody]
            writer.execute(change.encode())
            assert [conn.execute(look).fetchall() for conn in everybody] == before
            writer.commit()
            assert [conn.execute(look).fetchall() for conn in (reader, relayed, whole)] == [[after]] * 3
            assert fixed.execute(look).fetchall() == before[1]
            fixed.rollback()
            fixed.execute("set transaction isolation level repeatable read")
            assert fixed.execute(look).fetchall() == [after]


@pytest.mark.conforms("C-175")
def test_a_row_that_moved_and_is_upserted_where_it_is_now_leaves_one_row(spanning: Spanning) -> None:
    """By `thermocline.upsert`; ingest, Stream Load and CDC come with later issues."""
    spanning.tier()
    upsert = "insert into events (id, ts, v, note) values (%s, %s, %s, %s)"
    upsert += (
        " on conflict (id, ts) do update set v = excluded.v, note = excluded.note, amount = null, tags = null, "
        "doc = null"
    )
    moves = ("2026-01-20 03:00+00", "2026-02-11 03:00+00", "2026-04-20 03:00+00", "2026-01-03 00:00+00")
    for turn, place in enumerate(moves):
        for key in (5, 7):
            spanning.both(f"update events set ts = '{place}' where id = {key} returning *")
            if key == 7 and turn % 2:
                spanning.fold()
            fields = Jsonb({"id": key, "ts": place, "v": 100 + turn, "note": f"turn {turn}"})
            spanning.seam.execute("select thermocline.upsert('public.events', %s)", [fields])
            spanning.twin.execute(upsert, [key, place, 100 + turn, f"turn {turn}"])
        assert spanning.both("select id, count(*) from events where id in (5, 7) group by id order by id") == [
            (5, 1),
            (7, 1),
        ]
        spanning.fold()
        assert spanning.both("select id, count(*) from events where id in (5, 7) group by id order by id") == [
            (5, 1),
            (7, 1),
        ]
        spanning.assert_same_rows()
    with person(spanning, engine="duckdb") as whole:
        assert whole.execute("select count(*) from events where id in (5, 7)").fetchall() == [(2,)]


@pytest.mark.conforms("C-102")
def test_an_update_by_key_reads_only_the_files_that_can_hold_the_row(spanning: Spanning) -> None:
    spanning.tier()
    ((files,),) = spanning.query(
        "select (counters ->> 'files')::integer from thermocline.op_log where kind = 'tier' and phase = 'published'"
    )
    counters = (metrics.FILES_SCANNED, metrics.FILES_SKIPPED, metrics.BYTES_READ)
    before = [counter._value.get() for counter in counters]
    assert spanning.seam.execute("update events set v = v + 1 where id = %s", [17]).rowcount == 1
    scanned, skipped, size = (counter._value.get() - was for counter, was in zip(counters, before, strict=True))
    assert (scanned, skipped) == (1, files - 1)
    assert 0 < size < 20_000


@pytest.mark.conforms("C-128")
def test_who_may_read_one_tables_corrections_cannot_read_anothers(spanning: Spanning) -> None:
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        conn.execute(
            "create table public.other (id bigint, ts timestamptz, primary key (id, ts)) partition by range (ts)"
        )
        conn.execute(
            "create table public.other_1 partition of public.other for values from ('2026-01-01') to ('2026-02-01')"
        )
        register(spanning.dsn, RegisterRequest(table=parse_table_name("public.other")), settings=spanning.settings)
        conn.execute("create role one_delta login password 'secret'")
        try:
            conn.execute("grant usage on schema thermocline_delta to one_delta")
            conn.execute("grant select on thermocline_delta.public__events to one_delta")
            with closing(
                connect(make_conninfo(spanning.dsn, user="one_delta", password="secret"), autocommit=True)
            ) as reader:
                assert reader.execute("select count(*) from thermocline_delta.public__events").fetchall() == [(0,)]
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    reader.execute("select count(*) from thermocline_delta.public__other")
        finally:
            conn.execute("drop owned by one_delta")
            conn.execute("drop role one_delta")
