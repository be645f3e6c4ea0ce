"""The kill matrix leaves no point out."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from tests.faults.points import EVERY

import thermocline

_POINT = re.compile(r"fault_point\((f?)\"([^\"]+)\"\)")
_KINDS = ("compact", "rewrite_manifests")
"""Publications of maintenance that share their steps with all others."""


def test_every_point_of_the_program_is_one_that_a_test_kills_at() -> None:
    """The matrices have them all, but those that a test of its own names."""
    found = {match.groups() for path in Path(thermocline.__file__).parent.rglob("*.py") for match in _POINT.finditer(path.read_text())}
    points = {name for is_made, name in found if not is_made}
    points |= {name.replace("{kind}", kind) for (is_made, name), kind in product(found, _KINDS) if is_made}
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    elsewhere = {point for point in points - EVERY if f'"{point}"' in tests}
    assert points - elsewhere == EVERY
