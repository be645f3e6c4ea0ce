"""Every shape of statement through the seam and on the heap's own name, for hot, cold and mixed rows, against an
ordinary table."""

from __future__ import annotations

import pytest
from tests.e2e.orders import COLD, HOT
from tests.twin_transaction import TwinTransaction

WRITES = {
    "one cold row": f"insert into events (id, ts, v) values (900, {COLD}, 1) returning *",
    "one hot row": f"insert into events (id, ts, v) values (900, {HOT}, 1) returning *",
    "defaults left out": f"insert into events (id, ts) values (900, {COLD}), (901, {HOT}) returning *",
    "defaults asked for": (
        f"insert into events values (900, {COLD}, default, default, default, default, default, default) returning *"
    ),
    "null where there is a default": (
        f"insert into events (id, ts, kind) values (900, {COLD}, null), (901, {HOT}, null) returning *"
    ),
    "its own identity": f"insert into events (id, ts, serial) values (900, {COLD}, 5), (901, {HOT}, 6) returning *",
    "overriding user value": f"insert into events (id, ts) overriding user value values (900, {COLD}) returning *",
    "rows of a query": "insert into events (id, ts, v) select id + 1000, ts, v from events where id between 170 and"
    " 190 order by id returning id, v, doubled",
    "expressions returned": (
        f"insert into events (id, ts) values (900, {COLD}) returning id * 2 as twice, upper(kind), doubled + 1"
    ),
    "update of cold rows": "update events set v = v + 1, note = 'new' where id between 3 and 6 returning *",
    "update of hot rows": "update events set v = v + 1, note = 'new' where id between 190 and 193 returning *",
    "update of mixed rows": "update events set v = v + 1 where id between 170 and 190 returning id, v, doubled",
    "update to the same values": "update events set v = v where id between 170 and 190 returning id",
    "update to the default": "update events set v = default, kind = default where id in (5, 195) returning *",
    "update from": "update events e set note = s.n from (values (5, 'a'), (195, 'b'), (999, 'c')) s (id, n) where"
    " e.id = s.id returning e.*, s.n",
    "update from itself": "update events e set v = o.v from events o where o.id = "
    "e.id + 1 and e.id in (5, 178, 179, 195)"
    " returning e.id, e.v",
    "update by sub-link": "update events set v = (select max(v) from events) where "
    "id in (select id from events where v %"
    " 50 = 3) returning id, v",
    "update of row values": "update events set (v, note) = (select 3, 'three') where id in (5, 195) returning *",
    "delete of cold rows": "delete from events where id between 3 and 6 returning *",
    "delete of hot rows": "delete from events where id between 190 and 193 returning *",
    "delete of mixed rows": "delete from events where v % 10 = 3 returning id",
    "delete of all rows": "delete from events",
    "delete using": (
        "delete from events e using (values (5), (195), (999)) s (id) where e.id = s.id returning e.id, s.id"
    ),
    "delete using, each row met twice": "delete from events e using (values (5), (5), (195), "
    "(195)) s (id) where e.id = s.id returning"
    " e.id",
    "with: delete and insert": f"with gone as (delete from events where id in (5, 195) returning *)"
    f" insert into events (id, ts, v) select id + 1000, {HOT}, v from gone order by id returning id, v",
    "with: insert and read": "with made as (insert into events (id, ts) values (900, "
    f"{COLD}), (901, {HOT}) returning *)"
    " select count(*), (select count(*) from events) from made",
    "with: update twice apart": "with a as (update events set v = 1 where id = 5 "
    "returning id), b as (update events set v = 2"
    " where id = 195 returning id)"
    " select * from a union all select * from b",
    "key moved from cold to cold": (
        "update events set ts = ts - interval '2 days', note = 'moved' where id = 50 returning *"
    ),
    "key moved from cold to hot": f"update events set ts = {HOT}, v = v + 5, note = 'moved' where id = 50 returning *",
    "key moved from hot to cold": (
        f"update events set ts = {COLD}, v = v + 5, note = 'moved' where id = 195 returning *"
    ),
    "key moved from hot to hot": "update events set ts = ts + interval '1 hour', v = v + 5 where id = 195 returning *",
    "the other key column, cold": "update events set id = id + 5000 where id in (50, 51) returning *",
    "the other key column, hot": "update events set id = id + 5000 where id in (195, 196) returning *",
    "key moved, mixed": (
        "update events set ts = ts + interval '20 days' where id between 150 and 185 returning id, ts, v"
    ),
    "merge: update, delete, insert": f"""
        merge into events e using (values (5, 1), (6, 2), (195, 1), (196, 2), (900, 3)) s (id, what) on e.id = s.id
        when matched and what = 1 then update set v = e.v + 100, note = 'merged'
        when matched then delete
        when not matched then insert (id, ts, v) values (s.id, {COLD}, 3)
        returning merge_action(), s.id, e.v, e.note""",
    "merge: do nothing": (
        "merge into events e using (values (5), (195)) s (id) on e.id = s.id when matched then do nothing"
    ),
    "merge: not matched by source": "merge into events e using (values (5), (195)) s (id) on e.id = s.id"
    " when not matched by source and e.v % 60 = 1 then delete when matched then update set v = 0 returning "
    "merge_action(), e.id",
    "merge meets a row twice": (
        "merge into events e using (values (5), (5)) s (id) on e.id = s.id when matched then update set v = 1"
    ),
    "merge meets a hot row twice": "merge into events e using (values (195), (195)) s (id) on "
    "e.id = s.id when matched then update"
    " set v = 1",
    "an existing hot key": "insert into events (id, ts) select id, ts from events where id = 195",
    "a check that fails, cold insert": f"insert into events (id, ts, v) values (900, {COLD}, -1)",
    "a check that fails, cold update": "update events set v = -1 where id = 5",
    "a check that fails, hot update": "update events set v = -1 where id = 195",
    "not null, cold": f"insert into events (id, ts, v) values (900, {COLD}, null)",
    "not null key": f"insert into events (id, ts) values (null, {COLD})",
    "no tier key": "insert into events (id, ts) values (900, null)",
    "foreign key, cold insert": f"insert into events (id, ts, kind) values (900, {COLD}, 'unheard of')",
    "foreign key, cold update": "update events set kind = 'unheard of' where id = 5",
    "foreign key, hot update": "update events set kind = 'unheard of' where id = 195",
    "too long, cold": f"insert into events (id, ts, note) values (900, {COLD}, repeat('x', 21))",
    "too long, cold update": "update events set note = repeat('x', 21) where id = 5",
    "generated column given": f"insert into events (id, ts, doubled) values (900, {COLD}, 5)",
    "generated column asked for by default": (
        f"insert into events (id, ts, doubled) values (900, {COLD}, default) returning *"
    ),
    "generated column set": "update events set doubled = 5 where id = 5",
    "generated column set on a hot row": "update events set doubled = 5 where id = 195",
    "generated column set to default": "update events set doubled = default where id in (5, 195) returning *",
    "identity set to null": "update events set serial = null where id = 5",
    "a new key that exists, cold": "update events set id = 6, ts = (select ts from events where id = 6) where id = 5",
    "a new key that exists, hot": (
        "update events set id = 195, ts = (select ts from events where id = 195) where id = 5"
    ),
    "a hot row onto a cold key": "update events set id = 6, ts = (select ts from events where id = 6) where id = 195",
}


@pytest.mark.conforms("C-040", "C-041", "C-042", "C-048", "C-049", "C-083", "C-084", "C-085", "C-174", "C-176")
@pytest.mark.parametrize("statement", WRITES.values(), ids=WRITES.keys())
def test_a_write_through_the_seam_does_what_it_does_to_an_ordinary_table(
    both_sides: TwinTransaction, statement: str
) -> None:
    both_sides.check_both(statement)


READS = {
    "count": "select count(*), min(ts), max(v), sum(v), avg(v) from events",
    "window": "select id, sum(v) over (order by ts rows 2 preceding), lag(note) over (order by id) from"
    " events where id between 170 and 190",
    "grouping sets": (
        "select date_trunc('month', ts at time zone 'UTC'), v % 3, count(*) from events group by rollup (1, 2)"
    ),
    "self-join": "select a.id, b.id from events a join events b on b.id = a.id + 20 where a.v > 150",
    "lateral": (
        "select e.id, n.note from events e, lateral (select note from events o where o.id = e.id - 1) n where "
        "e.id in (5, 180, 195)"
    ),
    "set operations": "select id from events where v < 10 except select id from events where v < 5 union all select"
    " id from events where id > 198",
    "recursive": "with recursive r (id) as (select 170::bigint union all select e.id from r join events e on"
    " e.id = r.id + 1 where e.id < 185) select * from r",
    "exists": "select id from events e where exists (select 1 from events o where o.id = e.id + 100 and o.v >"
    " e.v) order by id desc limit 7",
    "whole row": "select e from events e where id in (5, 195)",
    "order and limit": 'select id, note from events order by note collate "C" desc, id limit 9 offset 3',
    "distinct on": "select distinct on (v % 7) v % 7, id from events order by v % 7, ts desc",
    "cast and like": "select id from events where note like 'row 1_5' or id::text like '%77'",
    "null tests": "select count(*) from events where kind is not null and doubled is distinct from v",
    "row comparison": (
        "select id from events where (ts, id) > ('2026-03-28 00:00+00', 170) and (ts, id) <= ('2026-04-03 "
        "00:00+00', 999)"
    ),
    "arrays": "select array_agg(id order by id) from events where id = any (array[5, 6, 195, 999])",
    "for update": "select id from events where id in (5, 195) for update",
    "for share of a join": "select e.id from events e join kinds k using (kind) where e.id in (5, 195) for share of e",
}


@pytest.mark.conforms("C-039", "C-045", "C-070")
@pytest.mark.parametrize("statement", READS.values(), ids=READS.keys())
def test_a_query_returns_what_an_ordinary_table_returns(both_sides: TwinTransaction, statement: str) -> None:
    both_sides.check_both(statement)


@pytest.mark.conforms("C-046")
@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("select * from events tablesample system (10)", "0A000"),
        ("select ctid from events", "42703"),
        ("select tableoid from events", "42703"),
        ("truncate events", "42809"),
        ("create index on events (v)", "42809"),
        ("insert into events (id, ts) values (195, {hot}) on conflict (id, ts) do nothing", "42P10"),
        ("insert into events (id, ts) values (5, {cold}) on conflict (id, ts) do update set v = 1", "42P10"),
        ("update events set v = 1 where current of nobody", "0A000"),
    ],
)
def test_what_a_view_cannot_do_fails_with_postgres_own_error_and_changes_nothing(
    both_sides: TwinTransaction, statement: str, state: str
) -> None:
    assert both_sides.ours(statement.format(hot=HOT, cold=COLD)).state == state
    both_sides.check_both("select count(*) from events")


def test_an_update_that_meets_a_row_twice_is_refused_where_postgres_would_pick_one(both_sides: TwinTransaction) -> None:
    for key in (5, 195):
        statement = f"update events e set v = s.v from (values ({key}, 1), ({key}, 2)) s (id, v) where e.id = s.id"
        assert both_sides.ours(statement).state == "21000"
        assert both_sides.ours(f"savepoint a; {statement}").state == "21000"
    both_sides.check_both("select count(*) from events")


ON_THE_HEAP = {
    "insert cold": f"insert into public.events (id, ts, v) values (900, {COLD}, 1) returning *",
    "insert hot": f"insert into public.events (id, ts, v) values (900, {HOT}, 1) returning *",
    "insert mixed": f"insert into public.events (id, ts) values (900, {COLD}), (901, {HOT}) returning *",
    "insert of rows of the seam": "insert into public.events (id, ts, v) select id + 1000, "
    "ts, v from events where v > 170 order"
    " by id returning id",
    "check": f"insert into public.events (id, ts, v) values (900, {COLD}, -1)",
    "not null": f"insert into public.events (id, ts, v) values (900, {COLD}, null)",
    "foreign key": f"insert into public.events (id, ts, kind) values (900, {COLD}, 'unheard of')",
    "on conflict do nothing, new": f"insert into public.events (id, ts) values (900, {COLD}), "
    f"(901, {HOT}) on conflict do nothing"
    " returning *",
    "on conflict do update, new": f"insert into public.events (id, ts) values (900, {COLD}), (901, {HOT})"
    " on conflict (id, ts) do update set v = 99 returning *",
    "on conflict do nothing, hot": "insert into public.events (id, ts) select id, ts from "
    "events where id = 195 on conflict (id,"
    " ts) do nothing returning *",
    "on conflict do update, hot": "insert into public.events as e (id, ts) select id, ts from events where id = 195"
    " on conflict (id, ts) do update set v = e.v + excluded.v returning *",
}


@pytest.mark.conforms("C-043", "C-086", "C-098")
@pytest.mark.parametrize("statement", ON_THE_HEAP.values(), ids=ON_THE_HEAP.keys())
def test_a_write_on_the_heaps_own_name_does_what_it_does_to_an_ordinary_table(
    both_sides: TwinTransaction, statement: str
) -> None:
    both_sides.check_both(statement)


@pytest.mark.conforms("C-043")
def test_on_conflict_on_the_heap_meets_historical_rows_that_were_written_before(both_sides: TwinTransaction) -> None:
    both_sides.check_both(f"insert into public.events (id, ts) values (900, {COLD}) returning *")
    both_sides.check_both(
        f"insert into public.events as e (id, ts) values (900, {COLD}) on conflict (id, ts) do update set v = "
        "e.v + 1 returning *"
    )
    both_sides.check_both(
        f"insert into public.events (id, ts, v) values (900, {COLD}, 55) on conflict do nothing returning *"
    )
    both_sides.check_both("update events set v = v + 1 where id = 900 returning *")
    both_sides.check_both("delete from events where id = 900 returning *")


@pytest.mark.conforms("C-044", "C-049")
def test_an_insert_of_a_key_that_only_the_lake_holds_replaces_the_row(both_sides: TwinTransaction) -> None:
    """By contract: the lake's index is not asked on every historical insert."""
    key = "select 5, ts, 77 from events where id = 5"
    assert both_sides.ours(f"insert into events (id, ts, v) {key}").tag == "INSERT 0 1"
    assert both_sides.ours("select v from events where id = 5").rows == [(77,)]


@pytest.mark.conforms("C-040", "C-083", "C-086", "C-098")
@pytest.mark.parametrize("target", ["events", "public.events"])
def test_copy_from_in_text_csv_and_binary_routes_every_row(both_sides: TwinTransaction, target: str) -> None:
    both_sides.copy(
        f"copy {target} (id, ts, v, note) from stdin",
        b"900\t2026-01-20 10:00+00\t1\ta\\nb\n901\t2026-04-20 10:00+00\t2\t\\N\n902\t2025-01-01 00:00+00\t3\tx\n",
    )
    both_sides.copy(
        f"copy {target} (id, ts, v) from stdin (format csv, header)",
        b"id,ts,v\n910,2026-01-20 10:00+00,1\n911,2026-04-20 10:00+00,2\n",
    )
    with both_sides.conn.cursor().copy(
        "copy (select id + 2000, ts, v from twin.events where v between 170 and 185) to stdout (format binary)"
    ) as out:
        data = b"".join(bytes(piece) for piece in out)
    both_sides.copy(f"copy {target} (id, ts, v) from stdin (format binary)", data)
    assert both_sides.count("public.events", "id in (900, 901, 902, 910, 911)") == 5
    assert both_sides.count("thermocline_delta.public__events", "id in (900, 901, 902, 910, 911)") == 3
