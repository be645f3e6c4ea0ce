"""How long work reports its progress: a function that takes a sentence, or how far a phase is."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from thermocline.core.messages.progress import Progress, Unit

ProgressReporter = Callable[[str | Progress], None]
_EVERY_SECONDS = 0.5


def no_progress(_told: str | Progress) -> None:
    """Report nothing."""


class Meter:
    """Counts the work of one phase and reports it: at the start, every half second, and at the end."""

    def __init__(self, report_progress: ProgressReporter, phase: str, total: int | None, unit: Unit) -> None:
        self._report_progress = report_progress
        self._phase, self._total, self._unit = phase, total, unit
        self._started_at, self._reported, self.done = datetime.now(UTC), 0.0, 0
        self._report()

    def add(self, amount: int) -> None:
        self.note(self.done + amount)

    def note(self, done: int) -> None:
        """How much is done now, of all; never less than before."""
        self.done = max(done, self.done)
        if time.monotonic() - self._reported >= _EVERY_SECONDS or self.done == self._total:
            self._report()

    def finish(self) -> None:
        """All of it is done; a total that was an estimate becomes what it was."""
        if self._total != self.done:
            self._total = self.done
            self._report()

    def _report(self) -> None:
        self._reported = time.monotonic()
        now = datetime.now(UTC)
        self._report_progress(
            Progress(
                phase=self._phase,
                done=self.done,
                total=self._total,
                unit=self._unit,
                started_at=self._started_at,
                at=now,
            )
        )
