"""The writer lock of a table: held for the short time of a commit, and waited for while tiering, folding or another
pass holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from thermocline.catalog import journal
from thermocline.catalog.maintenance import lake_ops
from thermocline.errors import AnotherWriter
from thermocline.maintain.context import PassContext
from thermocline.runtime.retries import back_off, retry_on

_PATIENCE_SECONDS = 600.0
_TRIES_IN_SILENCE = 4


@contextmanager
def writer_lock(context: PassContext) -> Iterator[None]:
    """Hold the writer lock, so that no other process of ours commits to the table."""
    with ExitStack() as held:
        tries = retry_on(AnotherWriter, seconds=_PATIENCE_SECONDS, wait=back_off, before_wait=partial(_note, context))
        for attempt in tries:
            with attempt:
                held.enter_context(_try_lock(context))
        yield


def _note(context: PassContext, attempt: int) -> None:
    if attempt == _TRIES_IN_SILENCE:
        context.report_progress("waiting for the table's writer")


def _try_lock(context: PassContext) -> AbstractContextManager[None]:
    target = context.target
    if target.registered is not None:
        return journal.table_lock(context.conn, target.registered.id, str(target.registered.name))
    assert target.lake_id is not None
    return lake_ops.lake_lock(context.conn, target.lake_id, str(target.name))
