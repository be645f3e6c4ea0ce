"""The tiering plan: which partitions move, where the cut-line goes, what may be dropped."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType
from thermocline.core.modes.mode import TIERED_KEEP_HEAP
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine, PartitionObservation, PartitionState, TableObservation
from thermocline.core.plan.preview import RowCount, plan_preview
from thermocline.core.plan.tier import TierPlan, hold_back, plan_tiering, render_plan, render_waiting

TABLE = TableName("public", "events")


def partition(
    lo: int, hi: int, state: PartitionState = "hot", *, behind: bool = True, reclaim: bool = False
) -> PartitionObservation:
    return PartitionObservation(
        oid=lo & 0xFFFF_FFFF,
        name=TableName("public", f"p{lo}"),
        lo=lo,
        hi=hi,
        state=state,
        size_bytes=8192,
        is_behind_tiering=behind,
        is_reclaimable=reclaim,
    )


def seen(t: int, *partitions: PartitionObservation) -> TableObservation:
    cut = CutLine(t=t, s=None, seam_line=t, fence=1)
    return TableObservation(table=TABLE, key_type=KeyType.BIGINT, cut=cut, partitions=partitions)


def moved(plan: TierPlan) -> list[tuple[int, int]]:
    return [(p.lo, p.hi) for p in plan.move]


@pytest.mark.conforms("C-051")
def test_the_run_from_the_cut_line_up_to_the_first_that_is_not_behind_moves() -> None:
    plan = plan_tiering(
        seen(0, partition(0, 10), partition(10, 20), partition(20, 30, behind=False), partition(30, 40))
    )
    assert (moved(plan), plan.new_t) == ([(0, 10), (10, 20)], 20)


@pytest.mark.conforms("C-051")
def test_an_empty_table_has_nothing_due() -> None:
    at = seen(0, partition(0, 10, behind=False), partition(10, 20, behind=False))
    plan = plan_tiering(at)
    assert plan.is_empty
    assert plan.new_t == 0
    assert render_plan(at, plan) == ("nothing to do",)


def test_a_table_without_partitions_has_nothing_due() -> None:
    assert plan_tiering(seen(0)).is_empty


def test_a_gap_is_passed_and_named() -> None:
    plan = plan_tiering(seen(0, partition(0, 10), partition(15, 20)))
    assert (moved(plan), plan.new_t) == ([(0, 10), (15, 20)], 20)
    assert [note.split(";")[0] for note in plan.notes] == ["no partition covers 10 to 15"]


def test_the_partition_up_to_maxvalue_is_never_due() -> None:
    plan = plan_tiering(seen(AXIS_MIN, partition(AXIS_MIN, 0), partition(0, AXIS_MAX)))
    assert (moved(plan), plan.new_t) == ([(AXIS_MIN, 0)], 0)


def test_a_partition_across_the_cut_line_stops_the_move_and_is_named() -> None:
    plan = plan_tiering(seen(5, partition(0, 10), partition(10, 20)))
    assert (moved(plan), plan.new_t) == ([], 5)
    assert "partition public.p0 straddles the cut-line" in plan.notes[0]


@pytest.mark.conforms("C-064")
def test_a_partition_made_below_the_cut_line_is_captured_and_not_moved() -> None:
    plan = plan_tiering(seen(20, partition(0, 10), partition(10, 20, "tiered"), partition(20, 30, behind=False)))
    assert [p.lo for p in plan.capture] == [0]
    assert plan.move == ()


@pytest.mark.conforms("C-059")
@pytest.mark.parametrize(
    ("state", "reclaim", "dropped"),
    [
        ("tiered", True, True),
        ("tiered", False, False),
        ("hot", True, False),
        ("sealing", True, False),
        ("tiering", True, False),
    ],
)
def test_only_a_tiered_partition_behind_the_reclaim_lag_is_dropped(
    state: PartitionState, reclaim: bool, dropped: bool
) -> None:
    plan = plan_tiering(seen(10, partition(0, 10, state, reclaim=reclaim), partition(10, 20, behind=False)))
    assert bool(plan.drop) is dropped


def test_a_tiered_partition_above_the_cut_line_is_not_dropped() -> None:
    """A state that no publication gives, should it ever be there: rows at or above T are read from the heap alone."""
    plan = plan_tiering(
        seen(10, partition(0, 10, "tiered", reclaim=True), partition(10, 20, "tiered", behind=False, reclaim=True))
    )
    assert [p.hi for p in plan.drop] == [10]


@pytest.mark.conforms("C-002")
def test_a_kept_heap_drops_nothing() -> None:
    at = seen(10, partition(0, 10, "tiered", reclaim=True), partition(10, 20, behind=False))
    assert plan_tiering(at).drop
    assert plan_tiering(dataclasses.replace(at, mode=TIERED_KEEP_HEAP)).drop == ()


def test_an_interrupted_move_is_taken_up_again() -> None:
    plan = plan_tiering(
        seen(0, partition(0, 10, "tiering"), partition(10, 20, "sealing"), partition(20, 30, behind=False))
    )
    assert moved(plan) == [(0, 10), (10, 20)]


def test_the_plan_is_told_in_sentences() -> None:
    at = seen(10, partition(0, 10, "tiered", reclaim=True), partition(10, 20), partition(20, 30, behind=False))
    assert render_plan(at, plan_tiering(at)) == (
        "move public.p10 (10 to 20, 8,192 bytes), then drop it from the heap, when no older reader lives",
        "raise the cut-line from 10 to 20",
        "drop public.p0 (0 to 10) from the heap, when no older reader lives",
    )


@pytest.mark.conforms("C-222")
@pytest.mark.parametrize(("lag", "leaves"), [(0, [10]), (1, [])])
def test_a_partition_leaves_in_the_cycle_that_moves_it_only_without_a_reclaim_lag(lag: int, leaves: list[int]) -> None:
    at = dataclasses.replace(seen(10, partition(10, 20), partition(20, 30, behind=False)), reclaim_lag=lag)
    plan = plan_tiering(at)
    assert [p.lo for p in plan.drop_after_move] == leaves
    assert plan_preview(at, plan, {p.oid: RowCount(rows=7) for p in plan.move}).moves[0].leaves_heap == (
        "once 1 newer keys were written" if lag else "in the same cycle"
    )


@pytest.mark.conforms("C-221")
@pytest.mark.parametrize("now", [10, 11, 19])
def test_the_partition_that_holds_now_never_moves(now: int) -> None:
    """Whatever rows say: some lie in the future, beyond its upper bound."""
    at = seen(0, partition(0, 10), partition(10, 20), partition(20, 30))
    plan = plan_tiering(dataclasses.replace(at, key_type=KeyType.TIMESTAMPTZ, now=now))
    assert moved(plan) == [(0, 10)]
    assert moved(plan_tiering(dataclasses.replace(at, key_type=KeyType.TIMESTAMPTZ, now=20))) == [(0, 10), (10, 20)]


@pytest.mark.conforms("C-221")
def test_of_a_table_that_is_not_started_only_late_partitions_are_captured() -> None:
    at = seen(20, partition(0, 10), partition(10, 20, "tiered", reclaim=True), partition(20, 30))
    plan = plan_tiering(at)
    held = hold_back(plan, at.cut.t)
    assert (held.capture, held.move, held.drop, held.drop_after_move, held.new_t) == (plan.capture, (), (), (), 20)
    assert render_waiting("public.events", plan) == (
        "due are public.p20, public.p10, and nothing moves by itself before `thermocline start public.events`",
    )
    assert render_waiting("public.events", held) == ()


@st.composite
def tables(draw: st.DrawFn) -> TableObservation:
    cuts = sorted(draw(st.lists(st.integers(-50, 50), min_size=2, max_size=9, unique=True)))
    ranges = [pair for pair in itertools.pairwise(cuts) if draw(st.booleans())]
    if draw(st.booleans()):
        ranges.append((cuts[-1], AXIS_MAX))
    high_water = draw(st.integers(-60, 60))
    lag, extra = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    t = draw(st.sampled_from(cuts))
    found = []
    for lo, hi in ranges:
        states: list[PartitionState] = ["hot", "tiered"] if hi <= t else ["hot", "sealing", "tiering"]
        behind, reclaim = hi + lag <= high_water, hi + lag + extra <= high_water
        found.append(partition(lo, hi, draw(st.sampled_from(states)), behind=behind, reclaim=reclaim))
    return seen(t, *found)


@pytest.mark.conforms("C-051", "C-052")
@given(tables())
def test_after_any_plan_the_cut_line_splits_exactly_and_a_second_plan_moves_nothing(at: TableObservation) -> None:
    plan = plan_tiering(at)
    assert plan.new_t >= at.cut.t
    assert plan.new_t == (plan.move[-1].hi if plan.move else at.cut.t)
    assert all(p.hi != AXIS_MAX and p.is_behind_tiering and p.lo >= at.cut.t for p in plan.move)
    for p in at.partitions:
        assert (p in plan.move) or p.hi <= at.cut.t or p.lo >= plan.new_t
    assert all(p.state == "tiered" and p.hi <= at.cut.t for p in plan.drop)
    after = tuple(
        dataclasses.replace(p, state="tiered") if p in plan.move or p in plan.capture else p for p in at.partitions
    )
    again = plan_tiering(dataclasses.replace(at, cut=dataclasses.replace(at.cut, t=plan.new_t), partitions=after))
    assert again.move == ()
    assert again.capture == ()
