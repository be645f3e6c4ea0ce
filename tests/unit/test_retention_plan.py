"""The retention line goes as far as it may, and takes whole files only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType
from thermocline.core.plan.retention import FileRange, plan_retention

FILES = tuple(FileRange(path=f"f{lower}", lower=lower, upper=lower + 9) for lower in range(0, 50, 10))


def test_it_is_the_highest_bound_behind_the_retention() -> None:
    plan = plan_retention(KeyType.INTEGER, 50, 25, [AXIS_MIN, 0, 10, 20, 30, 40, 50], AXIS_MAX, FILES, AXIS_MIN)
    assert plan is not None
    assert (plan.line, plan.remove, plan.notes) == (20, ("f0", "f10"), ())


def test_it_stays_where_it_is_when_no_bound_has_passed() -> None:
    assert plan_retention(KeyType.INTEGER, 50, 25, [0, 10, 20, 30], AXIS_MAX, FILES, 20) is None
    assert plan_retention(KeyType.INTEGER, 50, 100, [0, 10, 20, 30], AXIS_MAX, FILES, AXIS_MIN) is None


def test_a_partition_the_heap_has_holds_it_back() -> None:
    plan = plan_retention(KeyType.INTEGER, 50, 5, [0, 10, 20, 30, 40], 10, FILES, AXIS_MIN)
    assert plan is not None
    assert plan.line == 10


@given(
    st.integers(0, 200),
    st.integers(1, 200),
    st.sets(st.integers(-50, 200), max_size=12),
    st.integers(-50, 250),
    st.lists(st.tuples(st.integers(-50, 200), st.integers(0, 60)), max_size=10),
    st.integers(-60, 100),
)
def test_no_row_at_or_above_the_line_goes_and_none_below_stays(
    t: int, retention: int, bounds: set[int], held: int, files: list[tuple[int, int]], current: int
) -> None:
    ranges = [FileRange(path=str(number), lower=lo, upper=lo + width) for number, (lo, width) in enumerate(files)]
    plan = plan_retention(KeyType.BIGINT, t, retention, sorted(bounds), held, ranges, current)
    if plan is None:
        return
    assert plan.line >= current
    if plan.line > current:
        assert plan.line in bounds
        assert plan.line <= min(t - retention, held)
        for file in ranges:
            assert (file.upper < plan.line) == (file.path in plan.remove)
            assert file.path in plan.remove or file.lower >= plan.line
    else:
        assert plan.notes
        assert not plan.remove
