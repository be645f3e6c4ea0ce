"""A set of strings at eight bytes each: a hash collision keeps a file too many, never one too few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_HASHES_AT_ONCE = 65_536
Hashes = npt.NDArray[np.uint64]


def hash_text(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class PathSet:
    """A set of strings, kept as sorted hashes."""

    def __init__(self) -> None:
        self._sorted: Hashes = np.empty(0, dtype=np.uint64)
        self._new: list[int] = []

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._new.append(hash_text(text))
            if len(self._new) >= _HASHES_AT_ONCE + len(self._sorted) // 4:
                self._settle()

    def __contains__(self, text: object) -> bool:
        return bool(self.which([str(text)])[0])

    def which(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """For each string whether it was added."""
        self._settle()
        wanted = np.fromiter((hash_text(text) for text in texts), dtype=np.uint64, count=len(texts))
        at = np.searchsorted(self._sorted, wanted)
        found = np.zeros(len(wanted), dtype=np.bool_)
        inside = at < len(self._sorted)
        found[inside] = self._sorted[at[inside]] == wanted[inside]
        return found

    def __len__(self) -> int:
        self._settle()
        return len(self._sorted)

    def _settle(self) -> None:
        if self._new:
            self._sorted = np.union1d(self._sorted, np.array(self._new, dtype=np.uint64))
            self._new = []
