"""Types over time: a value that is added works in both tiers; what the lake may hold keeps its name, its attributes and
its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.twin import Spanning
from tests.twin_transaction import spanning_module

from thermocline.errors import HeapChanged
from thermocline.runtime.postgres_server import PostgresServer

TYPES = """
create type public.mood as enum ('sad', 'glad');
create type public.pair as (n integer, m public.mood);
create domain public.moods as public.mood[];
"""
TABLE = """
create table {schema}.events (id integer not null, ts timestamptz not null, m public.mood not null, all_of public.moods,
    both_of public.pair, primary key (id, ts))"""
ROWS = """
insert into events select i, '2026-01-01 00:00+00'::timestamptz + i * interval '12 hours', 'sad',
  array['sad', 'glad']::public.mood[], row(i, 'glad'::public.mood)::public.pair
  from generate_series(1, 200) i
"""


@pytest.fixture
def moods(database: str, make_spanning: Callable[..., Spanning]) -> Spanning:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(TYPES.encode())
    return make_spanning(table=TABLE, rows=ROWS)


def test_a_value_that_is_added_is_written_and_read_in_both_tiers(moods: Spanning) -> None:
    moods.tier()
    moods.seam.execute("alter type public.mood add value 'calm' before 'glad'")
    moods.both(
        "update events set m = 'calm', all_of = array['calm', null]::public.mood[] where id in (3, 190) returning *"
    )
    moods.both("select m, count(*) from events group by m order by m")
    moods.fold()
    moods.tier()
    moods.assert_same_rows()
    moods.both("select id, m from events where m > 'sad' order by id")


def test_a_value_that_the_lake_may_hold_cannot_be_renamed(moods: Spanning) -> None:
    moods.tier()
    for change in ("'sad' to 'blue'", "'glad' to 'merry'"):
        renaming = f"alter type public.mood rename value {change}"
        refusal = r"the lake of public\.events cannot follow this change: value"
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=refusal) as refused:
            moods.seam.execute(renaming.encode())
        assert "the lake holds it by its old name" in str(refused.value)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=refusal):
            moods.seam.execute(f"do $$ begin execute {renaming!r}; end $$".replace('"', "$x$").encode())
    moods.both("select * from events where id < 10 order by id")


def test_before_rows_left_the_heap_a_value_is_renamed_and_tiered_by_its_new_name(moods: Spanning) -> None:
    moods.seam.execute("alter type public.mood rename value 'sad' to 'blue'")
    moods.tier()
    moods.assert_same_rows()
    assert moods.both("select distinct m from events") == [("blue",)]


@pytest.mark.parametrize("watched", [True, False], ids=["at once", "by the next cycle"])
def test_a_type_that_gets_another_name_or_schema_is_followed(
    database: str, make_spanning: Callable[..., Spanning], watched: bool
) -> None:
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(
            "create type public.tone as enum ('low', 'high'); create domain public.code as varchar(9) check "
            "(value <> '')"
        )
    table = (
        "create table {schema}.events (id integer not null, ts timestamptz not null, t public.tone, c "
        "public.code, primary key (id, ts))"
    )
    moment = "'2026-01-01 00:00+00'::timestamptz + i * interval '12 hours'"
    rows = f"insert into events select i, {moment}, 'low', 'c' || i from generate_series(1, 200) i"
    spanning = make_spanning(table=table, rows=rows)
    spanning.tier()
    if not watched:
        spanning.seam.execute("alter event trigger thermocline_type_end disable")
    spanning.seam.execute(
        "create schema kinds; alter type public.tone rename to pitch; alter type public.pitch set schema kinds"
    )
    spanning.seam.execute('alter domain public.code rename to "co%de"')
    if not watched:
        spanning.tier()
    spanning.assert_same_rows()
    spanning.both("update events set t = 'high', c = 'new' where id in (3, 190) returning *")
    spanning.both("insert into events values (900, '2025-01-01 00:00+00', 'high', 'x') returning *")
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()


def test_renamed_unwatched_the_table_stops_and_says_which_value(moods: Spanning) -> None:
    """Where the role of `init` may make no event triggers: reads fail loudly, the next cycle names the value."""
    moods.tier()
    moods.seam.execute(
        "alter event trigger thermocline_type_end disable; alter type public.mood rename value 'sad' to 'blue'"
    )
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match='invalid input value for enum mood: "sad"'):
        moods.seam.execute("select * from events where ts < '2026-02-01'").fetchall()
    for step in (moods.tier, moods.fold):
        with pytest.raises(HeapChanged, match=r"value 'sad' of type public.mood was renamed to 'blue'"):
            step()
    moods.seam.execute("alter type public.mood rename value 'blue' to 'sad'")
    moods.tier()
    moods.fold()
    moods.assert_same_rows()


_ATTRIBUTES = r"type public\.pair got or lost attributes; the lake holds its values as they were"


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ("alter type public.pair add attribute more text", _ATTRIBUTES),
        ("alter type public.pair drop attribute n", _ATTRIBUTES),
        ("alter type public.pair drop attribute n, add attribute n integer", _ATTRIBUTES),
        ("alter table public.places drop column name", r"type public\.places got or lost attributes"),
        (
            "alter domain public.moods add check (cardinality(value) < 3)",
            r"domain public\.moods got a constraint; values in the lake were not",
        ),
        (
            "alter domain public.moods add check (cardinality(value) < 2) not valid",
            r"domain public\.moods got a constraint",
        ),
        ("alter domain public.moods set not null", r"domain public\.moods got a constraint"),
    ],
)
def test_a_type_changes_freely_until_the_lake_holds_values_of_it(settled: Spanning, change: str, refusal: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=refusal):
        settled.seam.execute(change.encode())
    settled.assert_same_rows()


def test_names_of_attributes_and_fewer_checks_need_nothing(settled: Spanning) -> None:
    settled.seam.execute("alter type public.pair rename attribute n to number")
    settled.seam.execute("alter domain public.moods drop constraint few")
    settled.seam.execute("alter table public.places alter column name set default 'x'")
    settled.assert_same_rows()
    settled.seam.execute("alter type public.pair rename attribute number to n")


def test_before_rows_left_the_heap_a_composite_changes_and_is_tiered_as_it_is(moods: Spanning) -> None:
    moods.seam.execute(
        "alter type public.pair add attribute more text; alter domain public.moods add check (cardinality(value) < 3)"
    )
    moods.both("update events set both_of = row(1, 'sad', 'much')::public.pair where id = 3")
    moods.tier()
    moods.assert_same_rows()


def test_a_composite_changed_unwatched_stops_the_table_by_name(moods: Spanning) -> None:
    moods.tier()
    moods.seam.execute(
        "alter event trigger thermocline_type_end disable; alter type public.pair add attribute more text"
    )
    with pytest.raises(HeapChanged, match=_ATTRIBUTES):
        moods.tier()


@pytest.fixture(scope="module")
def settled(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """Tiered; every test leaves it as it was."""
    places = (
        "create table public.places (id integer, name text); alter domain public.moods add constraint few check "
        "(cardinality(value) < 9);"
    )
    table = TABLE.replace("both_of public.pair,", "both_of public.pair, places public.places[],")
    rows = ROWS.replace("::public.pair\n", "::public.pair, array[row(i, 'here')::public.places]\n")
    with spanning_module(
        postgres, template, tmp_path_factory.mktemp("types"), before=TYPES + places, table=table, rows=rows
    ) as made:
        made.tier()
        yield made
