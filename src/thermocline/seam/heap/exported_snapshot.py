"""An exported snapshot of the heap: many readers, one point in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from thermocline.core.names import TableName
from thermocline.errors import LockNotGranted, PartitionGone
from thermocline.runtime.pg import Connection, connect, table_identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSnapshot:
    """The snapshot's name for other sessions, valid while this one is open, and the partitions' sizes."""

    name: str
    sizes: Mapping[TableName, int]
    conn: Connection = field(repr=False)

    def close(self) -> None:
        """End the transaction, then the session: the server lets a session go a moment after the client, a transaction
        at once."""
        with suppress(psycopg.OperationalError):  # whoever ended the session has ended the transaction with it
            self.conn.rollback()
        self.conn.close()


def export_snapshot(dsn: str, partitions: Sequence[TableName], lock_timeout_ms: int) -> ExportedSnapshot:
    """Export a snapshot taken now, holding the partitions against TRUNCATE, DROP and ALTER, which no snapshot protects
    from."""
    conn = connect(dsn, autocommit=True, application_name="thermocline snapshot")
    try:
        for setting, value in (("lock_timeout", f"{lock_timeout_ms}ms"), ("idle_in_transaction_session_timeout", "0")):
            conn.execute("select set_config(%s, %s, false)", [setting, value])
        conn.execute("begin isolation level repeatable read read only")
        # LOCK takes no snapshot: the first query after it does, so nothing can be truncated between the snapshot and
        # the lock.
        for partition in partitions:
            conn.execute(sql.SQL("lock table {} in access share mode").format(table_identifier(partition)))
        row = conn.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        sizes = {}
        for partition in partitions:
            size = conn.execute("select pg_relation_size(to_regclass(%s))", [str(partition)]).fetchone()
            sizes[partition] = int(size[0]) if size else 0
        return ExportedSnapshot(name=row[0], sizes=sizes, conn=conn)
    except psycopg.errors.LockNotAvailable as problem:
        conn.close()
        raise LockNotGranted(
            f"The lock to read {partitions[0]} was not granted within {lock_timeout_ms} ms."
        ) from problem
    except psycopg.errors.UndefinedTable as problem:
        conn.close()
        raise PartitionGone(f"A partition that was to be read is gone: {problem.diag.message_primary}.") from problem
    except BaseException:
        conn.close()
        raise
