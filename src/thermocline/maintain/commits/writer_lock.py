"""The writer lock of a table: held for the short time of a commit, and waited for while tiering, folding or another
pass holds it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

from thermocline.catalog import journal
from thermocline.catalog.maintenance import lake_ops
from thermocline.maintain.context import PassContext
from thermocline.ops.wait_for_writer import wait_for_writer


def writer_lock(context: PassContext) -> AbstractContextManager[None]:
    """Hold the writer lock, so that no other process of ours commits to the table."""
    return wait_for_writer(partial(_try_lock, context), context.report_progress)


def _try_lock(context: PassContext) -> AbstractContextManager[None]:
    target = context.target
    if target.registered is not None:
        return journal.table_lock(context.conn, target.registered.id, str(target.registered.name))
    assert target.lake_id is not None
    return lake_ops.lake_lock(context.conn, target.lake_id, str(target.name))
