"""Every key below T has one place in the heap afterwards, and no range is filled that the heap holds whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MIN
from thermocline.core.names import TableName
from thermocline.core.plan.restore import HistoryPartition, plan_restore

HEAP = TableName("public", "events")


def _known(name: str, lo: int, hi: int, presence: str) -> HistoryPartition:
    return HistoryPartition(name=TableName("parts", name), lo=lo, hi=hi, presence=presence)  # type: ignore[arg-type]


def test_partitions_that_left_are_made_again_and_gaps_only_when_they_have_rows() -> None:
    known = [
        _known("a", 0, 10, "gone"),
        _known("b", 10, 20, "gone"),
        _known("c", 30, 40, "whole"),
        _known("d", 40, 50, "partial"),
    ]
    planned = plan_restore(HEAP, known, 60)
    assert [(str(p.name), p.lo, p.hi, p.into is not None, p.is_gap) for p in planned] == [
        ("parts.events_restored", AXIS_MIN, 0, False, True),
        ("parts.a", 0, 10, False, False),
        ("parts.b", 10, 20, False, False),
        ("parts.events_restored", 20, 30, False, True),
        ("parts.d", 40, 50, True, False),
        ("parts.events_restored", 50, 60, False, True),
    ]


def test_a_partition_that_was_made_again_by_others_goes_before_the_one_that_left() -> None:
    planned = plan_restore(HEAP, [_known("a", 0, 10, "gone"), _known("late", 5, 8, "partial")], 10)
    assert [(p.name.table, p.lo, p.hi) for p in planned] == [
        ("events_restored", AXIS_MIN, 0),
        ("a", 0, 5),
        ("late", 5, 8),
        ("a", 8, 10),
    ]


def test_a_table_without_partitions_below_the_line_is_one_gap() -> None:
    (only,) = plan_restore(HEAP, [], 7)
    assert (only.lo, only.hi, only.is_gap) == (AXIS_MIN, 7, True)


@given(
    st.integers(1, 60),
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 20), st.sampled_from(["gone", "whole", "partial"])), max_size=8
    ),
)
def test_ranges_and_whole_partitions_split_every_key_below_t(t: int, drawn: list[tuple[int, int, str]]) -> None:
    kept: list[HistoryPartition] = []
    for lo, width, presence in drawn:
        # The heap's own partitions never overlap; those that left may.
        if lo < t and (
            presence == "gone" or not any(p.presence != "gone" and p.lo < lo + width and lo < p.hi for p in kept)
        ):
            kept.append(_known(str(len(kept)), lo, lo + width, presence))
    planned = plan_restore(HEAP, kept, t)
    for key in (*range(t), -1):
        places = [p for p in planned if p.lo <= key < p.hi]
        whole = [p for p in kept if p.presence == "whole" and p.lo <= key < p.hi]
        assert len(places) + len(whole) == 1
