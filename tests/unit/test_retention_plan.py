"""How far the retention line may move: files below it go whole, files across it lose the rows below."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN
from thermocline.core.lake_file import FileBounds
from thermocline.core.plan.retention import plan_retention, plan_retention_line


def test_it_is_the_highest_bound_behind_the_retention() -> None:
    assert plan_retention_line(50, 25, [AXIS_MIN, 0, 10, 20, 30, 40, 50], AXIS_MAX, AXIS_MIN) == 20


def test_it_stays_where_it_is_when_no_bound_has_passed() -> None:
    assert plan_retention_line(50, 25, [0, 10, 20, 30], AXIS_MAX, 20) is None
    assert plan_retention_line(50, 100, [0, 10, 20, 30], AXIS_MAX, AXIS_MIN) is None


def test_a_partition_the_heap_has_and_a_load_that_waits_hold_it_back() -> None:
    assert plan_retention_line(50, 5, [0, 10, 20, 30, 40], 10, AXIS_MIN) == 10
    assert plan_retention_line(50, 5, [0, 10, 20, 30, 40], AXIS_MAX, AXIS_MIN, lowest_staged=29) == 20


def test_files_below_go_and_files_across_lose_rows() -> None:
    files = tuple(FileBounds(path=f"f{lower}", lower=lower, upper=lower + 9) for lower in range(0, 50, 10))
    assert plan_retention(20, files).remove == ("f0", "f10")
    assert plan_retention(20, files).straddling == ()
    assert (plan_retention(29, files).remove, plan_retention(29, files).straddling) == (("f0", "f10"), ("f20",))


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
    line = plan_retention_line(t, retention, sorted(bounds), held, current)
    if line is None:
        assert not [bound for bound in bounds if current < bound <= min(t - retention, held)]
        return
    assert line in bounds
    assert current < line <= min(t - retention, held)
    ranges = [FileBounds(path=str(number), lower=lo, upper=lo + width) for number, (lo, width) in enumerate(files)]
    plan = plan_retention(line, ranges)
    for file in ranges:
        assert (file.upper < line) == (file.path in plan.remove)
        assert (file.lower >= line) == (file.path not in plan.remove and file.path not in plan.straddling)
