"""The analyses that are known, bounded by bytes."""

from __future__ import annotations

from thermocline.gateway.analysis.canonical_statement import AnalysisKey, CanonicalStatement
from thermocline.runtime.memory.bounded_cache import BoundedCache

MAX_BYTES = 32_000_000
_ENTRY_BYTES = 500


class AnalysisCache:
    """Analyses by what decides them; the one unused for longest leaves first.

    That the catalog is still the same is checked by whoever uses an entry, with its `definitions`, at the statement's
    own snapshot.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._known: BoundedCache[AnalysisKey, CanonicalStatement] = BoundedCache(max_bytes=max_bytes)

    @property
    def held_bytes(self) -> int:
        return self._known.held_bytes

    def find(self, key: AnalysisKey) -> CanonicalStatement | None:
        return self._known.read(key)

    def add(self, key: AnalysisKey, statement: CanonicalStatement) -> None:
        self._known.put(key, statement, statement.size_bytes + len(key.text) * 2 + _ENTRY_BYTES)

    def drop(self, key: AnalysisKey) -> None:
        self._known.forget(key)
