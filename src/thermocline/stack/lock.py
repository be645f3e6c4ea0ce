"""The lock of a stack's directory: one process at a time prepares, runs or stops the stack.

It is an flock on DIR/.lock and ends with its holder. The file names the process that brings the stack up, so that
`down` finds it before anything else is recorded. `up --detach` hands the lock on to the process in the background
without releasing it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thermocline.errors import DirectoryUnusable
from thermocline.stack.state import ProcessRecord, record_of

_INHERITED = "_THERMOCLINE_LOCK_FD"
"""Not THERMOCLINE_…, which are settings."""


class StackLock:
    """A lock that is held."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def record_holder(self) -> None:
        """Name this process as the one that brings the stack up."""
        own = record_of("supervisor", os.getpid(), "running")
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps({"pid": own.pid, "started": own.started}).encode(), 0)

    def environment(self) -> dict[str, str]:
        """What tells a child that got the descriptor that it holds the lock."""
        return {_INHERITED: str(self.descriptor)}


def lock_path(directory: Path) -> Path:
    return directory / ".lock"


@contextmanager
def try_lock(directory: Path) -> Iterator[StackLock | None]:
    """Hold the stack's lock while inside, also one that the parent process handed on; None when another process holds
    it."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(lock_path(directory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        raise DirectoryUnusable(
            f"The stack's directory {directory} cannot be used: {problem.strerror}.", hint="Name another one by --dir."
        ) from problem
    if (inherited := _take_inherited(descriptor)) is not None:
        os.close(descriptor)
        descriptor = inherited
    try:
        yield StackLock(descriptor) if _is_locked(descriptor) else None
    finally:
        os.close(descriptor)


def read_holder(directory: Path) -> ProcessRecord | None:
    """The process that brings the stack up, or did; only a lock that is held says that it may still do so."""
    try:
        found = json.loads(lock_path(directory).read_text(encoding="utf-8"))
        return ProcessRecord(name="supervisor", pid=int(found["pid"]), started=float(found["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_inherited(opened: int) -> int | None:
    """The descriptor that the parent process handed on, if it is of the same file."""
    given = os.environ.pop(_INHERITED, "")
    if not given.isdecimal():
        return None
    try:
        if not os.path.samestat(os.fstat(int(given)), os.fstat(opened)):
            return None
    except OSError:
        return None
    os.set_inheritable(int(given), False)
    return int(given)
