"""One figure of a benchmark, as stored and printed."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value beside its yardstick. `spread` is (largest - smallest) / median of the runs."""

    figure: str
    value: float
    unit: str
    yardstick: str
    yardstick_value: float | None
    ratio: float | None
    reach: str
    met: bool
    runs: int
    spread: float
    machine: str
    date: str


def compare(
    name: str, ours: Sequence[float], yardstick: str, theirs: Sequence[float], unit: str, reach_ratio: float
) -> Figure:
    """A figure where more is better, from repeated runs of both sides."""
    value, other = statistics.median(ours), statistics.median(theirs)
    return Figure(
        figure=name,
        value=round(value, 3),
        unit=unit,
        yardstick=yardstick,
        yardstick_value=round(other, 3),
        ratio=round(value / other, 2),
        reach=f">= {reach_ratio}x",
        met=value >= reach_ratio * other,
        runs=len(ours),
        spread=round((max(ours) - min(ours)) / value, 3),
        machine=machine(),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
    )


def fewer(name: str, value: float, yardstick: str, other: float, unit: str, reach_ratio: float) -> Figure:
    """A count where less is better; the ratio says how many times less."""
    return Figure(
        figure=name,
        value=value,
        unit=unit,
        yardstick=yardstick,
        yardstick_value=other,
        ratio=round(other / value, 2),
        reach=f">= {reach_ratio}x fewer",
        met=other >= reach_ratio * value,
        runs=1,
        spread=0.0,
        machine=machine(),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
    )


def within(name: str, value: float, limit: float, unit: str, yardstick: str = "-") -> Figure:
    """A figure that must not exceed a limit."""
    return Figure(
        figure=name,
        value=round(value, 3),
        unit=unit,
        yardstick=yardstick,
        yardstick_value=None,
        ratio=None,
        reach=f"<= {limit:g}",
        met=value <= limit,
        runs=1,
        spread=0.0,
        machine=machine(),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
    )


def reported(name: str, value: float, unit: str) -> Figure:
    """A figure without a yardstick, recorded to show its trend."""
    return Figure(
        figure=name,
        value=round(value, 3),
        unit=unit,
        yardstick="-",
        yardstick_value=None,
        ratio=None,
        reach="-",
        met=True,
        runs=1,
        spread=0.0,
        machine=machine(),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
    )


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, {platform.machine()}, {platform.system()}"
    )


def write_results(name: str, figures: Sequence[Figure]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    return path


def read_results(name: str) -> list[Figure]:
    return [Figure(**row) for row in json.loads((RESULTS / f"{name}.json").read_text())]
