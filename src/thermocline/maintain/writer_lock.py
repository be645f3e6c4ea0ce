"""The writer's place on a table: taken for the short time of a commit, waited for when tiering, folding or another pass
has it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count

from thermocline.catalog import journal
from thermocline.catalog.maintenance import lake_ops
from thermocline.errors import AnotherWriter
from thermocline.maintain.context import PassContext

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.05, 5.0
_PATIENCE_SECONDS = 600.0
_TRIES_IN_SILENCE = 4


def back_off(attempt: int) -> float:
    """50 ms, doubling to 5 s, with jitter: how long to wait before try number `attempt`, counted from 0."""
    return min(_FIRST_WAIT_SECONDS * (1 << min(attempt, 10)), _LONGEST_WAIT_SECONDS) * random.uniform(0.75, 1.25)


@contextmanager
def writer_lock(context: PassContext) -> Iterator[None]:
    """Nobody else of ours commits to the table meanwhile."""
    with ExitStack() as held:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for attempt in count():
            try:
                held.enter_context(_try_lock(context))
                break
            except AnotherWriter:
                if time.monotonic() > deadline:
                    raise
            if attempt == _TRIES_IN_SILENCE:
                context.talk("waiting for the table's writer")
            time.sleep(back_off(attempt))
        yield


def _try_lock(context: PassContext) -> AbstractContextManager[None]:
    target = context.target
    if target.registered is not None:
        return journal.table_lock(context.conn, target.registered.id, str(target.registered.name))
    assert target.lake_id is not None
    return lake_ops.lake_lock(context.conn, target.lake_id, str(target.name))
