"""Which files and folders a process flushes to disk, in which order, and how much of each was written by then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(slots=True)
class FsyncRecorder:
    """Records every fsync of this process, and performs it."""

    seen: list[tuple[str, int]] = field(default_factory=list)
    listeners: list[Callable[[Path], object]] = field(default_factory=list)
    """Told of each file just before it is flushed."""

    def check_on_disk(self, location: str) -> None:
        """The file was flushed as it is now, its folder after it, and the folder's own name since it was made."""
        path = Path(location.removeprefix("file://"))
        sizes = [size for name, size in self.seen if name == str(path)]
        assert sizes, f"{path} was never flushed"
        assert sizes[-1] == path.stat().st_size, f"{path} was written to after it was flushed"
        last = max(at for at, (name, _) in enumerate(self.seen) if name == str(path))
        assert str(path.parent) in [name for name, _ in self.seen[last:]], f"the name of {path} is not on disk"

    def has(self, path: Path) -> bool:
        return any(name == str(path) for name, _ in self.seen)


@contextmanager
def record_fsyncs() -> Iterator[FsyncRecorder]:
    found, really = FsyncRecorder(), os.fsync

    def watch(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        found.seen.append((name, os.fstat(descriptor).st_size))
        for listener in found.listeners:
            listener(Path(name))
        really(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", watch)
        yield found
