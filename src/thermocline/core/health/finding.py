"""What a check found: a verdict, what was seen, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from thermocline.errors import ThermoclineError

Verdict = Literal["ok", "warning", "red"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was seen, and what to do about it; `table` where it is about one."""

    check: str
    verdict: Verdict
    seen: str
    fix: str | None = None
    table: str | None = None

    @property
    def sentence(self) -> str:
        return f"{self.check}: {self.seen}"


def verdict_on(check: str, good: bool, seen: str, fix: str, otherwise: Verdict = "red") -> Finding:
    """A check that passed or did not; with the fix where it did not."""
    return Finding(check=check, verdict="ok" if good else otherwise, seen=seen, fix=None if good else fix)


def red(check: str, problem: ThermoclineError) -> Finding:
    """A check that a refusal ended."""
    return Finding(check=check, verdict="red", seen=str(problem), fix=problem.hint or None)
