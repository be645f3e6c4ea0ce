"""The directory of a gateway's spill files, and the removal of those that killed gateways left behind.

The owner holds a lock on a file in its directory while it lives, and the kernel releases it however the owner ends. So
the next gateway on this machine can tell which directories are abandoned. Process ids would not do: in a container they
are reused.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

_PREFIX, _LOCK = "thermocline-gateway-", "owner.lock"


class SpillDirectory:
    """A directory of this process below the system's temporary directory; removed when it is closed or garbage
    collected."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # The file gets its final name only once it is locked.
        unnamed = self.path / f"{_LOCK}.new"
        lock_file = os.open(unnamed, os.O_CREAT | os.O_WRONLY, 0o600)
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)
        self.close = weakref.finalize(self, _remove, self.path, lock_file)


def _remove(path: Path, lock_file: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock_file)


def remove_abandoned() -> None:
    """Remove the directories of gateways of this user that were killed."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if lock.parent.is_symlink() or lock.parent.stat().st_uid != os.geteuid():
                continue
            with lock.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # its owner is alive, or another gateway removes it
            continue
