"""Makes a statement that differs as small as it can be while it still differs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from tests.gateway.fuzz.oracle import Difference, Oracle
from tests.gateway.fuzz.pieces import reductions
from tests.gateway.fuzz.statements import PLAIN, Case


def shrink(oracle: Oracle, found: Difference, *, seconds: float = 20) -> Difference:
    """Takes the first smaller case that differs, again and again, until none does or the time is over."""
    until = time.monotonic() + seconds
    smaller: Difference | None = found
    while smaller is not None and time.monotonic() < until:
        found, smaller = smaller, _first_that_differs(oracle, smaller.case, until)
    return smaller or found


def _first_that_differs(oracle: Oracle, case: Case, until: float) -> Difference | None:
    for candidate in _candidates(case):
        if time.monotonic() > until:
            return None
        if (found := oracle.differs(candidate)) is not None:
            return found
    return None


def _candidates(case: Case) -> Iterator[Case]:
    if case.path != "{}":
        yield replace(case, path="{}")
    for name, value in case.settings.items():
        if value != PLAIN[name]:
            yield replace(case, settings={**case.settings, name: PLAIN[name]})
    if case.is_binary:
        yield replace(case, is_binary=False)
    if case.channel != "simple":
        yield replace(case, channel="simple")
    yield from (replace(case, statement=statement) for statement in reductions(case.statement))
