"""The directory of a gateway's spill files, and what is left of those that were killed.

The owner holds a lock on a file in its directory for as long as it lives, and the kernel lets go of it however the
owner ends. So the next gateway on this machine knows which directories are nobody's any more; process numbers would lie
to a gateway in a container.
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
    """A directory of this process' own in the system's place for temporary files, removed when closed, or let go of."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Under its name the lock is seen only once it is held.
        unnamed = self.path / f"{_LOCK}.new"
        held = os.open(unnamed, os.O_CREAT | os.O_WRONLY, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)
        self.close = weakref.finalize(self, _leave, self.path, held)


def _leave(path: Path, held: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(held)


def remove_abandoned() -> None:
    """Remove the directories of gateways of this user that were killed."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            if lock.parent.is_symlink() or lock.parent.stat().st_uid != os.geteuid():
                continue
            with lock.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # its owner lives, or somebody else removes it
            continue
