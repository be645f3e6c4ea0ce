"""A row from the future, and a key far ahead of all others, move neither T nor R by themselves; the operator's word
lets them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.twin import Spanning

from thermocline.errors import JumpNotPending
from thermocline.ops.tier.jumps import accept_jump

DAYS = """
do $$ begin
    for d in -31..-1 loop
        execute format('create table public.events_d%s partition of public.events for values from (%L) to (%L)',
                       31 + d, ((now() at time zone 'UTC')::date + d)::{key},
                           ((now() at time zone 'UTC')::date + d + 1)::{key});
    end loop;
end $$;
"""
DAY_ROWS = """
insert into events
select i, ((now() at time zone 'UTC')::date - 31 + i / 30)::{key}, i from generate_series(0, 929) i
"""
NARROW = "create table {{schema}}.events (id bigint not null, ts {key} not null, v integer, primary key (id, ts))"
NUMBERS = "create table {schema}.events (id bigint not null, k bigint not null, v integer, primary key (id, k))"
GRID = "".join(
    f"create table public.events_{lo} partition of public.events for values from ({lo}) to ({lo + 100});"
    for lo in range(0, 500, 100)
)
CUT = "select t, r from thermocline.cutline"


def daily(make_spanning: Callable[..., Spanning], key: str, **request: object) -> Spanning:
    """Thirty rows a day for the last thirty-one days, a partition each; and the rows of a day that no partition is
    there for yet."""
    return make_spanning(
        table=NARROW.format(key=key),
        partitions=DAYS.format(key=key),
        rows=DAY_ROWS.format(key=key),
        premake=None,
        **request,
    )


@pytest.mark.parametrize("key", ["timestamptz", "timestamp", "date"])
@pytest.mark.conforms("C-224")
def test_a_row_from_the_future_expires_nothing_and_todays_rows_are_taken(
    make_spanning: Callable[..., Spanning], key: str
) -> None:
    spanning = daily(make_spanning, key, lake_retention="40d")
    spanning.both(f"insert into events values (5000, ((now() at time zone 'UTC')::date + 100)::{key}, 1) returning id")
    for _ in range(4):
        spanning.tier()
    spanning.assert_same_rows()
    ((t, r),) = (
        spanning.query("select thermocline.axis(now() at time zone 'UTC') - t, r from thermocline.cutline")
        if key != "date"
        else (
            spanning.query("select thermocline.axis((now() at time zone 'UTC')::date) - t, r from thermocline.cutline")
        )
    )
    assert t >= 0
    assert r is None
    spanning.both("insert into events values (5001, (now() at time zone 'UTC')::date, 1) returning id")
    spanning.tier()
    spanning.assert_same_rows()
    assert spanning.query("select state from thermocline.partitions where name = 'events_d0'") == [("dropped",)]


def test_a_key_far_ahead_of_the_others_waits_for_the_operators_word(make_spanning: Callable[..., Spanning]) -> None:
    rows = "insert into events select i, i, i from generate_series(0, 449) i"
    spanning = make_spanning(
        table=NUMBERS, partitions=GRID, partition_by="range (k)", rows=rows, premake=None, lake_retention="1000"
    )
    spanning.tier()
    spanning.both("insert into events values (5000, 5000, 1) returning id")
    for _ in range(3):
        report = spanning.tier()
    assert spanning.query(CUT) == [(400, None)]
    (waiting,) = [said for said in report.deferred if "cut-line waits" in said]
    assert "`thermocline tier public.events --accept-jump 5000`" in waiting
    spanning.both("insert into events values (5001, 460, 1), (5002, 510, 1) returning id")
    spanning.assert_same_rows()
    spanning.tier()
    assert spanning.query(CUT) == [(500, None)], "rows that follow closely still move the line"
    with pytest.raises(JumpNotPending, match=r"5000"):
        accept_jump(spanning.dsn, spanning.name, "500")
    assert accept_jump(spanning.dsn, spanning.name, "5000").endswith("the cut-line may go to 5000, the operator said")
    assert len(spanning.tier().moved) > 40
    assert spanning.query(CUT)[0][0] == 5000
    spanning.assert_same_rows()
    spanning.both("insert into events values (9000, 20000, 1) returning id")
    assert any("--accept-jump 20000" in said for said in spanning.tier().deferred), (
        "the word was for the jump that was seen"
    )


def test_the_last_key_there_is_waits_as_any_other_key_far_ahead(make_spanning: Callable[..., Spanning]) -> None:
    rows = "insert into events select i, i, i from generate_series(0, 250) i"
    grid = "".join(
        f"create table public.events_{lo} partition of public.events for values from ({lo}) to ({lo + 100});"
        for lo in range(0, 300, 100)
    )
    spanning = make_spanning(
        table=NUMBERS, partitions=grid, partition_by="range (k)", rows=rows, premake=2, lake_retention="300"
    )
    spanning.both("insert into events values (5000, 9223372036854775807, 1) returning id")
    plan = spanning.tier(dry_run=True).plan
    assert "raise the cut-line from 0 to 200" in plan
    assert any("--accept-jump 9223372036854775807" in said for said in plan)
    for _ in range(3):
        report = spanning.tier()
    assert spanning.query(CUT) == [(200, None)]
    assert any("the cut-line waits" in said for said in report.deferred)
    spanning.assert_same_rows()
    spanning.both("insert into events values (5001, 260, 1), (5002, 310, 1) returning id")
    spanning.tier()
    assert spanning.query(CUT) == [(300, None)], "rows that follow closely still move the line"
    accept_jump(spanning.dsn, spanning.name, "9223372036854775807")
    spanning.tier()
    assert spanning.query(CUT)[0][0] > 300
    spanning.assert_same_rows()


@pytest.mark.parametrize("key", ["timestamptz", "timestamp", "date"])
def test_a_row_at_infinity_waits_as_any_other_row_far_ahead(make_spanning: Callable[..., Spanning], key: str) -> None:
    """Days that have rows move; the last of them, and the empty ones behind it, do not, although the clock has passed
    them."""
    rows = DAY_ROWS.format(key=key).replace("929", "599")
    spanning = make_spanning(
        table=NARROW.format(key=key), partitions=DAYS.format(key=key), rows=rows, premake=0, lake_retention="40d"
    )
    spanning.tier()
    (before,) = spanning.query(CUT)
    spanning.both("insert into events values (5000, 'infinity', 1) returning id")
    plan = spanning.tier(dry_run=True).plan
    assert not any("raise the cut-line" in said for said in plan)
    assert any("--accept-jump infinity" in said for said in plan)
    spanning.tier()
    assert spanning.query(CUT) == [before]
    spanning.assert_same_rows()


def test_the_first_tiering_of_a_backlog_needs_no_word_and_a_jump_of_the_retention_line_does(
    make_spanning: Callable[..., Spanning],
) -> None:
    rows = "insert into events select i, i, i from generate_series(0, 449) i"
    spanning = make_spanning(
        table=NUMBERS, partitions=GRID, partition_by="range (k)", rows=rows, premake=None, lake_retention="300"
    )
    spanning.tier()
    assert spanning.tier().retention_line == "100"
    spanning.twin.execute("delete from events where k < 100")
    spanning.both("insert into events select i, i, i from generate_series(450, 999) i")
    spanning.tier()
    assert spanning.query(CUT) == [(900, 100)]
    report = spanning.tier()
    (waiting,) = [said for said in report.deferred if "retention line waits" in said]
    assert "`thermocline tier public.events --accept-jump 600`" in waiting
    spanning.assert_same_rows()
    accept_jump(spanning.dsn, spanning.name, "600")
    assert spanning.tier().retention_line == "600"
    spanning.twin.execute("delete from events where k < 600")
    spanning.assert_same_rows()
