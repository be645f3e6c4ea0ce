"""The kill matrix leaves no point out."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.points import EVERY

import thermocline
from thermocline.core.op import FOLD, RETAIN, STEPS, TIER, TRUNCATE, kind_named

_POINT = re.compile(r"fault_point\(\"([^\"]+)\"\)")
_KINDS = (TIER, FOLD, RETAIN, TRUNCATE, kind_named("compact"), kind_named("rewrite_manifests"))
"""Of maintenance two, which share their steps with all others."""


def test_every_point_of_the_program_is_one_that_a_test_kills_at() -> None:
    """The matrices have them all, but those that a test of its own names."""
    points = {
        match[1]
        for path in Path(thermocline.__file__).parent.rglob("*.py")
        for match in _POINT.finditer(path.read_text())
    }
    points |= {kind.point(step) for kind in _KINDS for step in STEPS}
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    elsewhere = {point for point in points - EVERY if f'"{point}"' in tests}
    assert points - elsewhere == EVERY
