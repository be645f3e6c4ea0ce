"""Premake: partitions ahead of the newest row, rows that ran ahead carried into them, and nothing read differently on
the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.twin import Spanning

from thermocline.runtime.pg import connect_as_typed as connect

NUMBERS = "create table {schema}.events (id bigint not null, k bigint not null, v text, primary key (id, k))"
GRID = "".join(
    f"create table public.events_{lo} partition of public.events for values from ({lo}) to ({lo + 100});"
    for lo in range(0, 300, 100)
)
BOUNDS = "select name, state from thermocline.partitions where state <> 'dropped' order by lo"
SPILL = "select count(*) from thermocline_delta.public__events__spill"


@pytest.fixture
def spanning(make_spanning: Callable[..., Spanning]) -> Spanning:
    """As the shared one, with the default of premake."""
    return make_spanning(premake=None)


def _hot(spanning: Spanning) -> list[str]:
    return [name for name, state in spanning.query(BOUNDS) if state == "hot"]


@pytest.mark.conforms("C-063")
def test_two_months_are_kept_ready_and_a_second_cycle_makes_none(spanning: Spanning) -> None:
    report = spanning.tier()
    assert report.made == ["public.events_2026_05", "public.events_2026_06"]
    assert "made public.events_2026_05" in report.sentence
    assert spanning.tier().made == []
    assert _hot(spanning) == ["events_2026_04", "events_2026_05", "events_2026_06"]
    spanning.both("insert into events (id, ts, v) values (9001, '2026-05-20 00:00+00', 1)")
    assert spanning.query(SPILL) == [(0,)]
    assert spanning.tier().made == ["public.events_2026_07"]
    spanning.assert_same_rows()


@pytest.mark.conforms("C-063")
def test_it_is_off_with_zero_and_for_an_empty_table(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(rows="", premake=3)
    assert spanning.tier().made == []
    spanning.both("insert into events (id, ts, v) values (1, '2026-04-20 00:00+00', 1)")
    assert len(spanning.tier(dry_run=True).plan) == 7
    assert len(spanning.tier().made) == 3
    spanning.assert_same_rows()


@pytest.mark.conforms("C-063")
def test_a_table_with_premake_zero_gets_no_partition(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(premake=0)
    assert spanning.tier().made == []
    assert _hot(spanning) == ["events_2026_04"]


@pytest.mark.conforms("C-063", "C-064")
def test_rows_that_ran_ahead_are_moved_into_the_partition_made_for_them(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(premake=None, tiering_lag="60d")
    spanning.tier()
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2026-08-20 00:00+00', 1), (9002, '2026-07-20 00:00+00', 1)"
    )
    spanning.both(
        "insert into events (id, ts, v) values (9003, '2026-01-20 00:30+00', 1), (9004, '9999-01-01 00:00+00', 1)"
    )
    spanning.both("update events set v = 5 where id > 9000 returning *")
    spanning.both("delete from events where id = 9004")
    spanning.assert_same_rows()
    report = spanning.tier()
    assert report.made[:2] == ["public.events_2026_07", "public.events_2026_08"]
    assert spanning.query("select count(*) from public.events_2026_07") == [(1,)]
    assert spanning.query(SPILL) == [(1,)], "the correction below the cut-line stays where it is"
    spanning.assert_same_rows()
    spanning.both("update events set v = 6, note = 'later' where id = 9002 returning *")
    spanning.both("delete from events where id = 9001 returning id")
    spanning.both("insert into events (id, ts, v) values (9005, '2026-10-20 00:00+00', 1)")
    assert "public.events_2026_07" in spanning.tier().moved
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-063")
def test_rows_too_far_ahead_stay_in_the_spill_and_are_named(spanning: Spanning) -> None:
    spanning.both("insert into events (id, ts, v) values (9004, '9999-01-01 00:00+00', 1)")
    report = spanning.tier()
    assert report.made == ["public.events_2026_05", "public.events_2026_06"]
    assert any("rows at or above 2026-05-01 00:00:00+00" in note for note in report.notes)
    spanning.assert_same_rows()


@pytest.mark.conforms("C-064")
def test_partitions_made_by_others_are_found_and_counted(spanning: Spanning) -> None:
    with connect(spanning.dsn, autocommit=True) as conn:
        bounds = "from ('2026-05-01 00:00+00') to ('2026-06-01 00:00+00')"
        conn.execute(f"create table public.events_2026_05 partition of public.events for values {bounds}".encode())
    assert spanning.tier().made == ["public.events_2026_06"]
    assert _hot(spanning) == ["events_2026_04", "events_2026_05", "events_2026_06"]


@pytest.mark.conforms("C-062")
def test_a_long_reader_puts_premake_off_and_tiering_goes_on(spanning: Spanning) -> None:
    reader = spanning.session("public")
    reader.execute("select count(*) from events").fetchall()
    report = spanning.tier()
    assert report.made == []
    assert "is made in a later cycle" in report.deferred[0]
    assert len(report.moved) == 3
    spanning.assert_same_rows()
    reader.commit()
    assert len(spanning.tier().made) == 2
    spanning.assert_same_rows()


@pytest.mark.parametrize(
    "fires",
    [
        "before insert: if new.v = 'a' then return null; end if; new.v := 'changed';",
        "before insert: if new.v = 'a' then return null; end if;",
        "before insert: new.v := new.v || '!';",
        "before insert: if new.id = 2 then new.id := 7; end if;",
        "after insert: update public.events set v = 'changed' where id = new.id;",
        "after insert: if new.id < 9 then insert into public.events values (new.id + 10, new.k, 'more'); end if;",
        "deferred: update public.events set v = 'changed' where id = new.id;",
        "before delete: return null;",
    ],
)
def test_rows_that_a_trigger_would_drop_or_change_on_their_way_stay_in_the_spill(
    make_spanning: Callable[..., Spanning], fires: str
) -> None:
    rows = "insert into events select i, i, i::text from generate_series(0, 250) i"
    spanning = make_spanning(
        table=NUMBERS, partitions=GRID, partition_by="range (k)", rows=rows, premake=1, reclaim_lag="1000"
    )
    spanning.both("insert into events values (1, 310, 'a'), (2, 320, 'b')")
    event, _, action = fires.partition(": ")
    kind = "constraint trigger aaa after insert" if event == "deferred" else f"trigger aaa {event}"
    late = "deferrable initially deferred" if event == "deferred" else ""
    spanning.seam.execute(
        f"""create function public.meddle() returns trigger language plpgsql as $$ begin {action} return new; end $$;
            create {kind} on public.events {late} for each row execute function public.meddle();
            alter table public.events enable always trigger aaa""".encode()
    )
    for _ in range(2):
        report = spanning.tier()
        assert report.made == []
        assert any("partition events_300 is made in a later cycle" in said for said in report.deferred), report.deferred
        spanning.assert_same_rows()
    assert spanning.query(SPILL) == [(2,)]
    spanning.seam.execute("drop trigger aaa on public.events")
    assert spanning.tier().made == ["public.events_300", "public.events_400"]
    assert spanning.query(SPILL) == [(0,)]
    spanning.assert_same_rows()


@pytest.mark.conforms("C-064")
def test_a_generated_column_that_is_computed_otherwise_by_now_keeps_no_row_in_the_spill(
    make_spanning: Callable[..., Spanning],
) -> None:
    shown = "create or replace function public.shown(v text) returns text language sql immutable as 'select {}'"
    columns = (
        "id bigint not null, k bigint not null, v text, g text generated always as (public.shown(v)) stored, "
        "primary key (id, k)"
    )
    table = f"{shown.format('v')}; create table {{schema}}.events ({columns})"
    rows = "insert into events select i, i, i::text from generate_series(0, 250) i"
    spanning = make_spanning(
        table=table, partitions=GRID, partition_by="range (k)", rows=rows, premake=1, reclaim_lag="1000"
    )
    spanning.both("insert into events values (1, 310, 'a')")
    spanning.seam.execute(shown.format("upper(v)").encode())
    assert spanning.tier().made == ["public.events_300", "public.events_400"]
    assert spanning.query(SPILL) == [(0,)]
    spanning.twin.execute("update events set v = v where k = 310")
    spanning.assert_same_rows()
