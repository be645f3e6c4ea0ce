"""Begin and publish ops in the journal."""

from __future__ import annotations

import uuid
from typing import Any

from thermocline.catalog import journal
from thermocline.runtime.pg import Connection


def begin_op(conn: Connection, *, kind: str = "tier", t: int | None = None) -> journal.Op:
    cut = journal.claim(conn, 1)
    op = journal.Op(op_id=uuid.uuid4(), table_id=1, kind=kind, fence=cut.fence, t=cut.t if t is None else t, base=cut.s)
    journal.begin(conn, op, "test")
    return op


def publish_op(
    conn: Connection, op: journal.Op, *, snapshot: int | None, paths: tuple[str, ...] = (), **more: Any
) -> tuple[str, ...]:
    return journal.publish(conn, op, snapshot=snapshot, paths=paths, counters={}, message="done", **more)
