"""Starts a program as another user, bound to the life of its parent. Run as a script, it becomes that program.

    python -I -S runtime/launch.py PARENT_PID SIGNAL USER PROGRAM ARGUMENT…

SIGNAL is what the program gets when the parent dies (0: nothing); USER is a name, or - to stay who we are. It stands
alone (standard library only) because it runs before anything of ours is readable to that user, and replaces
`preexec_fn`, which is not safe beside threads.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def launch_command(
    program: Sequence[str | os.PathLike[str]], *, die_signal: int = 0, user: str | None = None
) -> list[str]:
    """The command line that starts `program` through this module, as a child of the calling process."""
    own = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid()), str(die_signal), user or "-"]
    return [*own, *(os.fspath(part) for part in program)]


def bind_to_parent(parent_pid: int, die_signal: int) -> None:
    """This process gets the signal when its parent dies; it exits if the parent is dead already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, die_signal, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def _become(parent_pid: int, die_signal: int, user: str, program: list[str]) -> None:
    if user != "-":
        entry = pwd.getpwnam(user)
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        os.environ["HOME"] = entry.pw_dir
    if die_signal:
        bind_to_parent(parent_pid, die_signal)  # after setuid, which clears it
    os.execvp(program[0], program)


if __name__ == "__main__":
    _become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
