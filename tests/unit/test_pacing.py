"""Pacing: budgets are kept over any ten seconds, whatever the pieces; latency slows, pauses and lets go again
stepwise."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.maintenance.pacing import MB, Backoff, Pace, next_pass_after_ms, plan_pace, quantile_ms
from thermocline.core.policy.policy import Policy
from thermocline.spark.kernels.pace import keep_pace


@dataclass(slots=True)
class Clock:
    """A clock that only the test and the sleeps move."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@given(
    st.lists(st.tuples(st.integers(0, 8 * MB), st.integers(0, 8 * MB), st.floats(0, 0.2)), min_size=1, max_size=60),
    st.sampled_from([1.0, 20.0, 300.0]),
)
def test_no_ten_seconds_hold_more_than_the_budget(pieces: list[tuple[int, int, float]], mb_per_s: float) -> None:
    clock = Clock()
    pace = Pace(read_bytes_per_s=mb_per_s * MB, write_bytes_per_s=mb_per_s * MB)
    paced = keep_pace(pace, lambda: clock.now, clock.sleep)
    ends: list[tuple[float, int]] = []
    for read, written, seconds in pieces:
        clock.now += seconds
        paced(read, written)
        ends.append((clock.now, read))
    assert sum(read for _, read in ends) <= mb_per_s * MB * clock.now * 1.0001 + 1
    for at, _ in ends:
        inside = sum(read for end, read in ends if at <= end < at + 10)
        assert (
            inside <= mb_per_s * MB * 10 * 1.0001 + 8 * MB
        )  # the piece that ends at the window's first moment was read before it


def test_a_budget_is_used_to_the_full_when_the_store_is_fast_enough() -> None:
    clock = Clock()
    paced = keep_pace(Pace(read_bytes_per_s=20 * MB), lambda: clock.now, clock.sleep)
    for _ in range(400):
        clock.now += 0.01
        paced(MB, 0)
    assert 400 / clock.now == pytest.approx(20, rel=0.01)


def test_time_spent_on_writing_counts_for_the_reading_budget() -> None:
    clock = Clock()
    paced = keep_pace(Pace(read_bytes_per_s=20 * MB), lambda: clock.now, clock.sleep)
    for _ in range(100):
        clock.now += 0.01
        paced(MB, 0)
        clock.now += 0.02
        paced(0, MB)
    assert 100 / clock.now == pytest.approx(20, rel=0.01)


def test_operations_per_second_are_limited_too() -> None:
    clock = Clock()
    paced = keep_pace(Pace(iops=50), lambda: clock.now, clock.sleep)
    for _ in range(100):
        paced(1, 0)
    assert clock.now == pytest.approx(2)


def test_a_duty_leaves_the_rest_of_the_time_free() -> None:
    clock = Clock()
    paced = keep_pace(Pace(duty=0.25), lambda: clock.now, clock.sleep)
    for _ in range(10):
        clock.now += 1
        paced(0, 0)
    assert clock.now == pytest.approx(40)


def test_limits_come_from_the_policy_the_smaller_of_share_and_absolute() -> None:
    assert plan_pace(Policy()) == Pace()
    artemis = Policy(preset="artemis", bandwidth_share=0.3)
    assert plan_pace(artemis) == Pace()
    assert plan_pace(artemis, measured_bytes_per_s=100 * MB).read_bytes_per_s == pytest.approx(30 * MB)
    declared = Policy(bandwidth_share=0.3, bandwidth_mb_per_s=200)
    assert plan_pace(declared, measured_bytes_per_s=1).read_bytes_per_s == pytest.approx(60 * MB)
    both = Policy(bandwidth_share=0.3, bandwidth_mb_per_s=200, max_read_mb_per_s=20, max_write_mb_per_s=10, max_iops=5)
    assert plan_pace(both) == Pace(read_bytes_per_s=20 * MB, write_bytes_per_s=10 * MB, iops=5)
    assert plan_pace(both).shared_by(4) == Pace(read_bytes_per_s=5 * MB, write_bytes_per_s=2.5 * MB, iops=1.25)


def test_latency_halves_the_rate_then_pauses_and_it_recovers_stepwise() -> None:
    state, seen = Backoff(), []
    for latency in (900.0, 900.0, 900.0, 900.0, None, 100.0, 100.0, 100.0, 100.0, 100.0):
        state = state.after(latency, 500)
        seen.append(state.factor)
    assert seen == [0.5, 0.25, 0.125, 0, 0, 0.125, 0.25, 0.5, 1, 1]
    assert Backoff().after(10_000, 0).factor == 1


def test_the_quantile_is_that_of_what_came_between_two_looks() -> None:
    before = {0.1: 1000.0, 1.0: 1000.0, float("inf"): 1000.0}
    after = {0.1: 1000.0, 1.0: 1100.0, float("inf"): 1100.0}
    assert quantile_ms(before, before, 0.95) is None
    assert quantile_ms(before, after, 0.95) == pytest.approx(955)
    assert quantile_ms({}, {0.1: 0.0, float("inf"): 5.0}, 0.95) == pytest.approx(100)


def test_a_continuous_table_is_due_again_soon_and_less_often_while_it_is_idle() -> None:
    assert next_pass_after_ms(Policy(), found_work=True) is None
    assert next_pass_after_ms(Policy(pass_interval_ms=60_000), found_work=True) == 60_000
    assert next_pass_after_ms(Policy(pass_interval_ms=60_000), found_work=False) == 600_000
    assert next_pass_after_ms(Policy(pass_interval_ms=0), found_work=True) == 1_000, "never without any pause"
