"""A cache bounded by the bytes of what it holds: the entry that was used longest ago goes first."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import wraps
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ENTRY_BYTES = 300


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    value: V
    size_bytes: int
    put_at: float


class BoundedCache(Generic[K, V]):
    """Values by key, at most `max_bytes` of them, each for at most `seconds`. Any thread may use it.

    With `keeps_large` a value above that size is kept too, and alone: what every statement needs again is worth it.
    """

    def __init__(self, *, max_bytes: int, seconds: float = float("inf"), keeps_large: bool = False) -> None:
        self._max_bytes = max_bytes
        self._keeps_large = keeps_large
        self._seconds = seconds
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, key: K) -> V | None:
        """The value, unless it is missing or too old."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if time.monotonic() - entry.put_at >= self._seconds:
                self._remove(key)
                return None
            self._entries.move_to_end(key)
            return entry.value

    def put(self, key: K, value: V, size_bytes: int) -> None:
        """Hold the value, unless it is larger than the whole cache may be."""
        with self._lock:
            self._remove(key)
            if size_bytes > self._max_bytes and not self._keeps_large:
                return
            self._entries[key] = _Entry(value, size_bytes, time.monotonic())
            self._held_bytes += size_bytes
            while self._held_bytes > self._max_bytes and len(self._entries) > 1:
                self._remove(next(iter(self._entries)))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._held_bytes = 0

    def forget(self, key: K) -> None:
        with self._lock:
            self._remove(key)

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._held_bytes -= entry.size_bytes


def cached_by_text(*, max_bytes: int, bytes_per_character: int) -> Callable[[Callable[[str], V]], Callable[[str], V]]:
    """Cache a function of one text, whose result is about so many bytes for each character."""

    def decorate(function: Callable[[str], V]) -> Callable[[str], V]:
        cache: BoundedCache[str, tuple[V]] = BoundedCache(max_bytes=max_bytes)

        @wraps(function)
        def read(text: str) -> V:
            known = cache.read(text)
            if known is None:
                known = (function(text),)
                cache.put(text, known, _ENTRY_BYTES + len(text) * (bytes_per_character + 4))
            return known[0]

        return read

    return decorate
