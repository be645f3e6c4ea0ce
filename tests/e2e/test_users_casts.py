"""Values go to the lake by their type's output function and come back by its input function: a user's own casts change
none of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.e2e.adoption import unregister_spanning
from tests.twin import Spanning

from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed as connect

TYPES = """
create extension citext schema public;
create type public.mood as enum ('sad', 'ok', 'happy');
create type public.tone as enum ('low', 'high', 'none');
create type public.pair as (a integer, b text);
create domain public.moody as public.mood;
create function public.told(public.mood) returns text language sql immutable as
    $$ select 'feels ' || case $1 when 'sad' then 'bad' else 'fine' end $$;
create function public.told(public.tone) returns text language sql immutable as $$ select 'tone ' || concat($1) $$;
create function public.told(public.pair) returns text language sql immutable as $$ select '(7,told)' $$;
create function public.to_mood(text) returns public.mood language sql immutable as $$ select 'sad'::public.mood $$;
create function public.to_tone(text) returns public.tone language sql immutable as $$ select 'none'::public.tone $$;
create function public.to_pair(text) returns public.pair language sql immutable
    as $$ select row(9, 'cast')::public.pair $$;
create cast (public.mood as text) with function public.told(public.mood);
create cast (public.tone as text) with function public.told(public.tone) as implicit;
create cast (public.pair as text) with function public.told(public.pair) as assignment;
create cast (text as public.mood) with function public.to_mood(text);
create cast (text as public.tone) with function public.to_tone(text) as assignment;
create cast (text as public.pair) with function public.to_pair(text) as implicit;
"""
TABLE = """
create table {schema}.events (
    id bigint not null, ts timestamptz not null, v integer,
    m public.mood, t public.tone, p public.pair, d public.moody, ms public.mood[], ps public.pair[],
    b bpchar, b5 char(5), c "char", n name, ci public.citext, any_number numeric, exact numeric(30, 4),
    primary key (id, ts)
)"""
ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i,
       (enum_range(null::public.mood))[1 + i % 3], (enum_range(null::public.tone))[1 + i % 3],
       case i % 4 when 0 then null when 1 then row(null, null)::public.pair else row(i, ' b ')::public.pair end,
       (enum_range(null::public.mood))[1 + i % 3], enum_range(null::public.mood), array[row(i, 'x')::public.pair, null],
       ('x' || repeat(' ', i % 4))::bpchar, ('ab' || repeat(' ', i % 2))::char(5), 'q', 'a name', 'Ci ', 1.10, 2.5
  from generate_series(1, 400) i
"""
SHOWN = (
    "select id, concat(m), concat(t), concat(p), p is distinct from null, concat(d), ms, concat(ps), "
    "octet_length(b), concat(b), b5,"
    " octet_length(b5), c, n, ci, any_number, exact from events"
)
CONDITIONS = (
    "where m = 'ok'",
    "where m > 'sad' and id < 100",
    "where concat(t) in ('low', 'none')",
    "where concat(d) = 'happy'",
    "where ms[1] = 'sad' and id < 40",
    "where (p).a = 30",
    "where b = 'x' and id < 60",
    "where octet_length(b) = 3",
    "where b like 'x  '",
    "where b5 = 'ab' and id between 100 and 110",
    "where concat(ci) = 'Ci '",
    "where p is null and id < 30",
    "where m::text = 'feels bad' and id < 50",
    "where concat(t) = 'high' and ts < '2026-02-01 00:00+00'",
)


@pytest.fixture
def cast(database: str, make_spanning: Callable[..., Spanning]) -> Spanning:
    with connect(database, autocommit=True) as conn:
        conn.execute(TYPES.encode())
    return make_spanning(table=TABLE, rows=ROWS)


def assert_reads_the_same(spanning: Spanning) -> None:
    """Row by row and by conditions of its own: the oracle draws its values by `::text`, which is a cast here."""
    assert spanning.both(SHOWN)
    # With casts of the user's own Postgres refuses some of them, on the twin as here.
    found = [condition for condition in CONDITIONS if spanning.both(f"{SHOWN} {condition}")]
    assert len(found) > len(CONDITIONS) / 2, found


@pytest.mark.conforms("C-229")
def test_users_casts_and_trailing_blanks_change_no_value_in_any_tier(cast: Spanning) -> None:
    cast.tier()
    cast.tier()
    assert cast.query("select count(*) from thermocline.partitions where state = 'dropped'") == [(3,)]
    assert_reads_the_same(cast)
    cast.both(
        "update events set m = 'happy', t = 'low', p = row(30, ' u '), b = 'x  ', ms = '{sad}' where id % 10 "
        "= 0 returning id"
    )
    cast.both(
        "insert into events (id, ts, m, t, b, d) values (900, '2026-01-05 00:00+00', 'ok', 'high', 'z ', "
        "'sad') returning *"
    )
    assert_reads_the_same(cast)
    cast.fold()
    assert cast.query("select count(*) from thermocline_delta.public__events where _folded is null") == [(0,)]
    assert_reads_the_same(cast)
    assert verify(cast.dsn, cast.name).is_exact
    cast.alter("add column late public.mood default 'happy', add column later public.pair default '(1,\"a b\")'")
    cast.both("select id, concat(late), concat(later) from events where late = 'happy'")
    cast.tier()
    cast.both("select id, concat(late), concat(later) from events where late = 'happy'")
    cast.both("update events set late = 'ok' where id in (5, 395) returning concat(late)")
    cast.fold()
    assert_reads_the_same(cast)
    cast.both("select id, concat(late), concat(later) from events where late <> 'happy'")
    cast.alter("drop column late")
    assert_reads_the_same(cast)
    unregister_spanning(cast, restore_heap=True)
    cast.seam.execute("set search_path = public")
    cast.both(SHOWN)
    assert cast.query("select typname from pg_type where typnamespace = 'thermocline_lake'::regnamespace") == []


def test_keys_whose_equal_values_are_written_differently_are_folded_by_the_types_own_equality(
    database: str, make_spanning: Callable[..., Spanning]
) -> None:
    with connect(database, autocommit=True) as conn:
        conn.execute(TYPES.encode())
    columns = "b bpchar not null, m public.mood not null, ts timestamptz not null, v integer, primary key (b, m, ts)"
    table = f"create table {{schema}}.events ({columns})"
    rows = (
        "insert into events select ('k' || i || ' ')::bpchar, (enum_range(null::public.mood))[1 + i % 3],"
        " '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i from generate_series(1, 400) i"
    )
    spanning = make_spanning(table=table, rows=rows)
    spanning.tier()
    spanning.tier()
    spanning.both("update events set b = 'k7   ', v = -7 where b = 'k7' returning octet_length(b), v")
    spanning.both("update events set v = v + 1 where m = 'ok' and ts < '2026-02-01' returning b, m, v")
    spanning.both("delete from events where b = 'k9' returning octet_length(b)")
    spanning.both("select b, octet_length(b), concat(m), ts, v from events")
    spanning.fold()
    spanning.both("select b, octet_length(b), concat(m), ts, v from events")
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact
