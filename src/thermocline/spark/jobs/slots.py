"""How many compaction tasks run at once, counted over all workers: each holds one of a few numbered locks in Postgres.

A lock dies with its task's connection, so a killed task frees its place at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from thermocline.runtime.pg import Connection

_CLASS = 746_210
_TRY = "select pg_try_advisory_lock(%s, %s)"


def acquire_slot(conn: Connection, slots: int, sleep: Callable[[float], None] = time.sleep) -> int | None:
    """Wait for a free place and hold it until the connection ends; its number. Nothing is waited for without a
    limit."""
    if slots <= 0:
        return None
    while True:
        for number in random.sample(range(slots), slots):
            if conn.execute(_TRY, (_CLASS, number)).fetchone() == (True,):
                return number
        sleep(random.uniform(0.1, 0.3))
