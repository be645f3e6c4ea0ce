"""Throttle a compaction task: called after each I/O by any of its threads, it sleeps as long as the budget requires."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from thermocline.core.maintenance.pacing import UNPACED, Pace, PaceKeeper


def keep_pace(
    pace: Pace, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> Callable[[int, int], None]:
    """The function that a kernel calls with the bytes it read and wrote since the last call."""
    if pace == UNPACED:
        return lambda _read, _written: None
    keeper, one_at_a_time = PaceKeeper(pace, clock()), Lock()

    def paced(bytes_read: int, bytes_written: int) -> None:
        with one_at_a_time:
            pause = keeper.take(bytes_read, bytes_written, clock())
        if pause > 0:
            sleep(pause)

    return paced
