"""Retries: which error is tried again, how often, and with which waits."""

from __future__ import annotations

import pytest

from thermocline.runtime.retries import back_off, retry_on


class Busy(Exception):
    """Tried again."""


def test_the_last_error_is_raised_as_it_is_after_growing_waits() -> None:
    ran: list[int] = []
    waited: list[int] = []

    def no_wait(attempt: int) -> float:
        waited.append(attempt)
        return 0.0

    def fail() -> None:
        ran.append(1)
        raise Busy(len(ran))

    with pytest.raises(Busy, match="3"):
        retry_on(Busy, attempts=3, wait=no_wait)(fail)
    assert waited[:2] == [0, 1]


def test_a_value_is_returned_from_the_first_attempt_that_succeeds() -> None:
    ran: list[int] = []

    def run() -> int:
        for attempt in retry_on(Busy, attempts=5):
            with attempt:
                ran.append(1)
                if len(ran) < 3:
                    raise Busy
                return len(ran)
        raise AssertionError("the loop returns or raises")

    assert run() == 3


def test_another_error_is_not_tried_again() -> None:
    ran: list[int] = []

    def fail() -> None:
        ran.append(1)
        raise ValueError("at once")

    with pytest.raises(ValueError, match="at once"):
        retry_on(Busy, seconds=60)(fail)
    assert ran == [1]


def test_waits_double_from_50_ms_to_5_s_with_jitter() -> None:
    assert all(0.75 <= back_off(attempt) / (0.05 * 2**attempt) <= 1.25 for attempt in range(6))
    assert all(3.7 < back_off(attempt) < 6.3 for attempt in (7, 8, 100))
    assert len({back_off(3) for _ in range(9)}) > 1
