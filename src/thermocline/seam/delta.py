"""The delta as folding sees it: what waits below the cut-line, in which pieces; what was folded, marked; what nobody
can miss, purged.

Marking never waits. A correction or a spill row that a writer has locked just now is left as it is: it stays pending,
reads the same, and is folded again by a later cycle.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg import sql

from thermocline.catalog.health.waiting_corrections import Waiting
from thermocline.core.axis import KeyType
from thermocline.core.names import TableName
from thermocline.core.plan.fold import Edge, FoldRange
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.seam.heap.row_moves import silence_user_triggers
from thermocline.seam.objects import SeamDefinition
from thermocline.seam.render import Templates, axis_value, bigint_literal

_QUERIES = Templates.load("delta.sql")
_CANONICAL_TEXTS = frozenset(
    {"bpchar", "inet", "cidr", "macaddr", "macaddr8", "oid", "name", "char", "bit", "varbit", "pg_lsn"}
)


def pending_condition(seam: SeamDefinition, part: FoldRange) -> sql.Composed:
    """Corrections of a tier-key range that wait to be folded; the delta goes by the name `d`."""
    ends = {"lo": axis_value(seam.key_type, part.lo), "hi": axis_value(seam.key_type, part.hi)}
    condition = _QUERIES.render("pending", seam, **ends)
    if part.shares > 1:
        share = {"share": bigint_literal(part.share), "shares": bigint_literal(part.shares)}
        condition += sql.SQL(" ") + _QUERIES.render("share", seam, **share)
    return condition


def count_pending(conn: Connection, delta: TableName, tier_key: str, key_type: KeyType, t: int) -> int:
    """Corrections that wait below the cut-line."""
    values = {"delta": table_identifier(delta), "tier_key": sql.Identifier(tier_key), "hi": axis_value(key_type, t)}
    statement = _QUERIES.render("count_pending", None, **values)
    row = conn.execute(statement).fetchone()
    return int(row[0]) if row else 0


def read_waiting(conn: Connection, delta: TableName, tier_key: str, key_type: KeyType, t: int) -> Waiting:
    """Corrections that wait below the cut-line, with the first and the last of their versions."""
    values = {"delta": table_identifier(delta), "tier_key": sql.Identifier(tier_key), "hi": axis_value(key_type, t)}
    row = conn.execute(_QUERIES.render("waiting", None, **values)).fetchone()
    assert row is not None
    return Waiting(rows=row[0], first_version=row[1], last_version=row[2])


def read_edges(conn: Connection, seam: SeamDefinition, t: int, range_rows: int) -> tuple[Edge, ...]:
    """Where the pieces of the backlog begin, when each is to hold about `range_rows`."""
    values = {"hi": axis_value(seam.key_type, t), "range_rows": bigint_literal(range_rows)}
    statement = _QUERIES.render("edges", seam, **values)
    return tuple(Edge(key=key, rows=rows) for key, rows in conn.execute(statement))


def read_inexact_keys(conn: Connection, seam: SeamDefinition) -> frozenset[str]:
    """Key columns of which two equal values may be stored differently: text forms that are not canonical, and loose
    collations."""
    loose = {row[0] for row in conn.execute(_QUERIES["inexact_collations"], {"relid": seam.heap.oid})}
    by_name = {column.name: column for column in seam.lake_columns}
    texts = {
        key.name
        for key in seam.heap.primary_key
        if by_name[key.name].form == "text"
        # Without a length, blanks at the end are kept and yet compare as equal.
        and (by_name[key.name].base_type not in _CANONICAL_TEXTS or by_name[key.name].pg_type == "bpchar")
    }
    return frozenset(texts | (loose & {key.name for key in seam.heap.primary_key}))


def apply_marks(
    conn: Connection, seam: SeamDefinition, runs: Iterable[tuple[int, int]], *, keep_spill: bool
) -> str | None:
    """Mark exactly these versions as folded and take their rows out of the spill, in the fold's transaction; why they
    stay, if they do.

    Versions come as runs, first and last included, because corrections written together have neighbouring ones. A row
    that stays in the spill reads the same: below T the heap's arm shows nothing, and whatever is done to the row is
    captured.
    """
    versions = sql.Literal("{" + ",".join(f"[{first},{last}]" for first, last in runs) + "}")
    # What one part of the statement hands to the next has no statistics, and a nested loop over it would take for ever.
    conn.execute(_QUERIES["plan_for_many"])
    reason = None
    if not keep_spill:
        try:
            with conn.transaction():
                # Where we may, silence the user's own triggers: for the application these rows are not deleted.
                silence_user_triggers(conn)
                conn.execute(_QUERIES.render("mark_and_unspill", seam, versions=versions))
                return None
        except psycopg.OperationalError:
            raise
        except psycopg.DatabaseError as refused:
            reason = (
                f"what was folded stays in {seam.objects.spill}, too, for a trigger or a rule of the user's "
                f"refuses its delete: {refused}"
            )
    conn.execute(_QUERIES.render("mark", seam, versions=versions))
    return reason


def lock_for_publication(conn: Connection, spill: TableName) -> None:
    """The first lock of a publication that touches the delta: spill, then cut-line, table, delta, in the order of an
    ALTER TABLE.

    It waits for an ALTER TABLE to end, and keeps no reader or writer waiting meanwhile.
    """
    conn.execute(_QUERIES.render("lock_spill", None, spill=table_identifier(spill)))


def apply_purge(conn: Connection, seam: SeamDefinition, xid: str) -> tuple[int, bool]:
    """Delete what the fold of this transaction marked; how many rows went, and whether none is left."""
    with conn.transaction():
        purged = conn.execute(_QUERIES.render("purge", seam, xid=sql.Literal(xid))).rowcount
    return purged, conn.execute(_QUERIES.render("is_purged", seam, xid=sql.Literal(xid))).fetchone() == (True,)
