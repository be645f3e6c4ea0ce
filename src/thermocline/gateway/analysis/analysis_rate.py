"""How many new analyses a second the gateway makes."""

from __future__ import annotations

ANALYSES_PER_SECOND = 100.0
MAX_BURST = 300.0


class AnalysisRate:
    """Allows so many analyses a second: each costs Postgres a transaction id and some WAL."""

    def __init__(self, per_second: float = ANALYSES_PER_SECOND, burst: float = MAX_BURST) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._at: float | None = None

    def allows(self, now: float) -> bool:
        """Whether one more may be made now; it is counted then."""
        if self._at is not None:
            self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
