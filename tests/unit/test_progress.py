"""Progress is data; percentage, rate and remaining time follow from it alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.cli.progress import show_progress
from thermocline.core.messages.progress import (
    Progress,
    Unit,
    progress_from_json,
    render_bytes,
    render_progress,
    render_seconds,
)
from thermocline.runtime.progress import Meter

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(done: int, total: int | None, seconds: float, unit: Unit = "rows") -> Progress:
    return Progress(
        phase="copying events_p1",
        done=done,
        total=total,
        unit=unit,
        started_at=START,
        at=START + timedelta(seconds=seconds),
    )


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (at(0, 1000, 0), "copying events_p1: 0%, 0 of 1,000 rows"),
        (at(250, 1000, 10), "copying events_p1: 25%, 250 of 1,000 rows, 25 rows/s, 30 s left"),
        (at(999, 1000, 999), "copying events_p1: 99%, 999 of 1,000 rows, 1.0 rows/s, 1 s left"),
        (at(1000, 1000, 10), "copying events_p1: 100%, 1,000 of 1,000 rows, 100 rows/s"),
        (at(1200, 1000, 10), "copying events_p1: 100%, 1,200 of 1,000 rows, 120 rows/s"),
        (at(5_000_000, None, 10, "bytes"), "copying events_p1: 5.0 MB, 500 kB/s"),
        (at(50, 7250, 1), "copying events_p1: 0%, 50 of 7,250 rows, 50 rows/s, 2 min 24 s left"),
    ],
)
def test_a_line_has_percentage_amount_rate_and_remaining_time(seen: Progress, line: str) -> None:
    assert render_progress(seen) == line


def test_amounts_of_bytes_and_seconds_are_rounded_for_people() -> None:
    assert [render_bytes(n) for n in (0, 999, 1000, 999_499, 999_950, 123_456_789)] == [
        *("0 B", "999 B", "1.0 kB", "999 kB", "1.0 MB", "123 MB")
    ]
    assert [render_seconds(n) for n in (0.1, 59.4, 60, 125, 3600, 7830)] == [
        *("1 s", "59 s", "1 min", "2 min 5 s", "1 h", "2 h 10 min")
    ]


@given(st.integers(0, 2**62), st.none() | st.integers(0, 2**62), st.floats(0, 1e7))
def test_any_progress_survives_storage_and_has_a_sane_line(done: int, total: int | None, seconds: float) -> None:
    seen = at(done, total, seconds)
    assert progress_from_json(json.loads(json.dumps(seen.to_json()))) == seen
    assert seen.percent is None or 0 <= seen.percent <= 100
    assert (seen.percent == 100) == (bool(total) and total is not None and done >= total)
    assert (seen.remaining_seconds or 0) >= 0
    assert render_progress(seen)


def test_a_meter_reports_its_start_and_its_end_and_never_goes_back() -> None:
    told: list[str | Progress] = []
    meter = Meter(told.append, "copying", 100, "rows")
    for done in (10, 60, 40, 100):
        meter.note(done)
    figures = [one.done for one in told if isinstance(one, Progress)]
    assert (figures[0], figures[-1], figures == sorted(figures)) == (0, 100, True)
    estimated = Meter(told.append, "copying more", 100, "rows")
    estimated.note(70)
    estimated.finish()
    assert isinstance(told[-1], Progress)
    assert (told[-1].done, told[-1].total, told[-1].percent) == (70, 70, 100)


def test_without_a_terminal_each_phase_has_lines_and_with_json_nothing_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for silent in (False, True):
        with show_progress(silent=silent) as report_progress:
            report_progress("sealing events_p1")
            report_progress(at(0, 1000, 0))
            report_progress(at(500, 1000, 1))
            report_progress(at(1000, 1000, 2))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "sealing events_p1",
        "copying events_p1: 0%, 0 of 1,000 rows",
        "copying events_p1: 100%, 1,000 of 1,000 rows, 500 rows/s",
    ]
