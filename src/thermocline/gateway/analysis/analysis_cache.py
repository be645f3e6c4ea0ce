"""The analyses that are known, bounded by bytes, and how many new ones a second the gateway makes."""

from __future__ import annotations

from collections import OrderedDict

from thermocline.gateway.analysis.canonical_statement import AnalysisKey, CanonicalStatement

MAX_BYTES = 32_000_000
ANALYSES_PER_SECOND = 100.0
MAX_BURST = 300.0


class AnalysisCache:
    """Analyses by what decides them; the one unused for longest leaves first.

    Not for several threads: sessions use it in the event loop. That the catalog is still the same is checked by whoever
    uses an entry, with its `definitions`, at the statement's own snapshot.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[AnalysisKey, CanonicalStatement] = OrderedDict()
        self.size_bytes = 0

    def find(self, key: AnalysisKey) -> CanonicalStatement | None:
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def add(self, key: AnalysisKey, statement: CanonicalStatement) -> None:
        self.drop(key)
        self._known[key] = statement
        self.size_bytes += _size_bytes(key, statement)
        while self.size_bytes > self._max_bytes:
            self.drop(next(iter(self._known)))

    def drop(self, key: AnalysisKey) -> None:
        statement = self._known.pop(key, None)
        if statement is not None:
            self.size_bytes -= _size_bytes(key, statement)


def _size_bytes(key: AnalysisKey, statement: CanonicalStatement) -> int:
    return statement.size_bytes + len(key.text) * 2 + 500


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
