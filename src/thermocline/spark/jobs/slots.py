"""Limit the number of compaction tasks that run at once over all workers: each task holds one of a few advisory locks
in Postgres.

The lock ends with the task's connection, so a killed task frees its slot at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from thermocline.runtime.pg import Connection

_CLASS = 746_210
_TRY = "select pg_try_advisory_lock(%s, %s)"


def acquire_slot(conn: Connection, slots: int, sleep: Callable[[float], None] = time.sleep) -> int | None:
    """Wait for a free slot and hold it until the connection ends; returns its number. None without waiting where
    `slots` sets no limit."""
    if slots <= 0:
        return None
    while True:
        for number in random.sample(range(slots), slots):
            if conn.execute(_TRY, (_CLASS, number)).fetchone() == (True,):
                return number
        sleep(random.uniform(0.1, 0.3))
