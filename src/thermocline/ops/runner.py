"""One protocol for every change of a lake.

    intent → write (files are registered before they are written) → commit on exactly the head looked at → publish →
    record

Every arrow is a place where the process may be killed. Invariants:

1. The head was looked at before the intent, and the commit goes onto that head or fails. So whoever finds the intent
   first can fence the lake, and a writer that was given up for dead commits nothing afterwards (`ops/resolve.py`).
2. An op is abandoned only when it is known that nothing of it is in the lake: its commit was not sent, or is known
   never to arrive (`LostRace`, `CommitFailed`). Whatever else fails from the commit on, such as the flush of what it
   wrote, leaves the op to the next writer, which looks for the commit by its stamp.
3. What an op holds open while it writes (an exported snapshot with its locks, a transaction) is held until it is
   published.

Tiering, folding, retention, truncation and every rewrite of maintenance run here, whichever engine made the rewrite.
What does not, and why: restoring the heap changes no lake; adoption publishes commits of other programs; expiry removes
snapshots and adds none, so it is a compare-and-swap without a stamp whose deletions are noted before
(`maintain/operations/expire_snapshots.py`); following a column changes the schema in the transaction that notes it;
`recover` takes the lake back to a version that the journal knows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import psycopg

from thermocline.catalog import journal, tables
from thermocline.catalog.maintenance import lake_ops
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.observation import CutLine
from thermocline.core.op import OpKind, kind_named
from thermocline.errors import CommitFailed, LostRace, ThermoclineError
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp
from thermocline.ops.spanning_table import objects_of
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection
from thermocline.seam.delta import lock_for_publication
from thermocline.seam.retention import ExpiringTable, apply_expiry, read_line_of_op

Commit = Callable[[LakeHead, OpStamp], int]
"""Makes the snapshot on this head, with this stamp, and returns its id; `LostRace` when the table has moved."""


Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOp(Generic[Result]):
    """What an op wrote and how it goes on. Without `commit` there is nothing to commit, and it is published as it
    is."""

    result: Result
    """What the op reports afterwards."""
    message: str
    """The sentence for the journal."""
    event: str | None = None
    """The sentence for the table's activity."""
    commit: Commit | None
    paths: Sequence[str] = ()
    """The files that the commit adds."""
    counters: Mapping[str, object] = field(default_factory=dict)
    lock: Callable[[], object] = lambda: None
    """Runs first in the publishing transaction."""
    mark: Callable[[], object] = lambda: None
    """Runs in the publishing transaction once the token was found to be ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneOp(Generic[Result]):
    """An op that was published; `snapshot` is None when it committed nothing."""

    op_id: str
    snapshot: int | None
    result: Result


class OpJournal(Protocol):
    """Where the steps of one op are recorded."""

    @property
    def kind(self) -> OpKind: ...

    @property
    def stamp(self) -> OpStamp: ...

    def begin(self) -> None: ...

    def note(
        self, phase: str, *, snapshot: int | None = None, counters: Mapping[str, object] | None = None
    ) -> None: ...

    def publish(self, written: WrittenOp[object], snapshot: int | None) -> None: ...

    def record(self, event: str) -> None: ...

    def abandon(self, problem: str) -> None: ...


Write = Callable[[OpStamp, ExitStack], WrittenOp[Result] | None]
"""Writes what is to be committed under this stamp; None when nothing is left to do. What is entered into the stack
stays open until the op is published."""


def run_op(conn: Connection, op: OpJournal, head: LakeHead, write: Write[Result]) -> DoneOp[Result] | None:
    """Run one op on the head that was looked at; None when it turned out that there is nothing to do."""
    kind = op.kind
    op.begin()
    fault_point(kind.point("intent"))
    snapshot: int | None = None
    is_sent = False
    try:
        with ExitStack() as held:
            written = write(op.stamp, held)
            if written is None:
                op.abandon("nothing was left to do")
                return None
            op.note("written", counters=written.counters)
            fault_point(kind.point("written"))
            if written.commit is not None:
                is_sent = True
                snapshot = written.commit(head, op.stamp)
                fault_point(kind.point("committed"))
                op.note("committed", snapshot=snapshot)
                fault_point(kind.point("committed-noted"))
            op.publish(written, snapshot)
    except (ThermoclineError, psycopg.Error) as problem:
        never_arrives = not is_sent or (snapshot is None and isinstance(problem, LostRace | CommitFailed))
        if never_arrives and not (conn.closed or conn.broken):
            op.abandon(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)
        raise
    fault_point(kind.point("published"))
    if written.event is not None:
        op.record(written.event)
    return DoneOp(op_id=op.stamp.op_id, snapshot=snapshot, result=written.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOp:
    """An op on the lake of a registered table, under the token that was claimed."""

    conn: Connection
    registered: RegisteredTable
    kind: OpKind
    op: journal.Op
    worker: str

    @property
    def stamp(self) -> OpStamp:
        return OpStamp(op_id=str(self.op.op_id), kind=self.kind.name, table_id=self.op.table_id, t=self.op.t)

    def begin(self) -> None:
        journal.begin(self.conn, self.op, self.worker)

    def note(self, phase: str, *, snapshot: int | None = None, counters: Mapping[str, object] | None = None) -> None:
        journal.note_phase(self.conn, self.op, phase, snapshot=snapshot, counters=counters)

    def publish(self, written: WrittenOp[object], snapshot: int | None) -> None:
        publish_op(
            self.conn,
            self.registered,
            self.op,
            snapshot=snapshot,
            paths=written.paths,
            message=written.message,
            lock=written.lock,
            mark=written.mark,
        )

    def record(self, event: str) -> None:
        tables.insert_event(self.conn, self.registered.id, self.kind.name, event)

    def abandon(self, problem: str) -> None:
        journal.abandon(self.conn, self.op, problem)


def plan_table_op(
    conn: Connection, registered: RegisteredTable, kind: OpKind, cut: CutLine, worker: str, *, t: int | None = None
) -> TableOp:
    """An op on what the cut-line says now; `t` is where it moves the cut-line to."""
    op = journal.Op(
        op_id=uuid.uuid4(),
        table_id=registered.id,
        kind=kind.name,
        fence=cut.fence,
        t=cut.t if t is None else t,
        base=cut.s,
    )
    return TableOp(conn=conn, registered=registered, kind=kind, op=op, worker=worker)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTableOp:
    """An op on a lake table that Postgres does not know: nothing is published to readers, and files that it commits are
    the table's."""

    conn: Connection
    lake_id: int
    kind: OpKind
    op_id: uuid.UUID
    base: int | None
    worker: str
    pass_id: uuid.UUID | None

    @property
    def stamp(self) -> OpStamp:
        return OpStamp(op_id=str(self.op_id), kind=self.kind.name, table_id=0)

    def begin(self) -> None:
        lake_ops.begin_lake_op(
            self.conn,
            self.op_id,
            self.lake_id,
            self.kind.name,
            base=self.base,
            worker=self.worker,
            pass_id=self.pass_id,
        )

    def note(self, phase: str, *, snapshot: int | None = None, counters: Mapping[str, object] | None = None) -> None:
        """Its commit is found by its stamp, so that one phase is enough."""

    def publish(self, written: WrittenOp[object], snapshot: int | None) -> None:
        lake_ops.finish_lake_op(
            self.conn,
            self.op_id,
            snapshot=snapshot,
            paths=written.paths,
            counters=written.counters,
            message=written.message,
        )

    def record(self, event: str) -> None:
        tables.insert_event(self.conn, None, self.kind.name, event)

    def abandon(self, problem: str) -> None:
        lake_ops.finish_lake_op(self.conn, self.op_id, snapshot=None, counters={}, message=problem)


def publish_op(
    conn: Connection,
    registered: RegisteredTable,
    op: journal.Op,
    *,
    snapshot: int | None,
    paths: Sequence[str],
    message: str,
    lock: Callable[[], object] = lambda: None,
    mark: Callable[[], object] = lambda: None,
) -> tuple[str, ...]:
    """Publish an op of a registered table with all that its kind requires, now or after a crash; the partitions that
    are tiered now."""
    if kind_named(op.kind).expires:
        table = _expiring(registered)
        lock, mark = (lambda: lock_for_publication(conn, table.spill)), (lambda: _expire(conn, registered, table, op))
    return journal.publish(conn, op, snapshot=snapshot, paths=paths, counters={}, message=message, lock=lock, mark=mark)


def _expiring(registered: RegisteredTable) -> ExpiringTable:
    """What purging below the retention line needs to know of a table."""
    objects = objects_of(registered)
    return ExpiringTable(
        table_id=registered.id,
        delta=objects.delta,
        spill=objects.spill,
        tier_key=registered.tier_key,
        key_type=registered.key_type,
    )


def _expire(conn: Connection, registered: RegisteredTable, table: ExpiringTable, op: journal.Op) -> None:
    if reason := apply_expiry(conn, table, read_line_of_op(conn, registered.id, op.op_id)):
        tables.insert_event(conn, registered.id, "retain", f"{registered.name}: {reason}.")
