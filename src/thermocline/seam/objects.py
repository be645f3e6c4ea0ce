"""The seam: the spanning view, the delta, the spill, the foreign table and the trigger functions of one table.

Postgres itself fills in the statements of `templates/` (`thermocline.render`), so that an ALTER TABLE can rebuild
functions and view in its own transaction. Two invariants rest on what is made here:

* a row is visible in exactly one arm of the view under any one snapshot (heap at or above T; lake and delta below it);
* a cold row is never written on top of an image the writer did not see (`changed_meanwhile`, `changed_in_delta`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from thermocline.core.axis import KeyType
from thermocline.core.columns import LakeColumn
from thermocline.core.modes.mode import DEFAULT_MODE, Mode
from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries, table_identifier
from thermocline.seam.heap.facts import Grant, HeapFacts

CAPTURE_TRIGGER = "thermocline_capture"
HIDDEN_COLUMNS = ("_snapshot", "_op", "_version", "_folded", "_old_key")
SERVER = "thermocline_gateway"

_QUERIES = load_queries("thermocline.seam", "queries/objects.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeamObjects:
    """The names of what is made for one table."""

    heap: TableName
    seam: TableName
    delta: TableName
    lake: TableName
    spill: TableName
    functions: str

    def function(self, what: str) -> sql.Identifier:
        return sql.Identifier("thermocline_fn", f"{self.functions}_{what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeamDefinition:
    """All that the templates need to know of one table."""

    objects: SeamObjects
    heap: HeapFacts
    table_id: int
    tier_key: str
    key_type: KeyType
    lake_columns: tuple[LakeColumn, ...]
    mode: Mode = DEFAULT_MODE


def apply_seam_objects(conn: Connection, seam: SeamDefinition, line: int) -> None:
    """Make delta, spill, foreign table, functions, view and triggers; all but the delta belong to the heap's owner, so
    that nothing runs with more rights."""
    objects = seam.objects
    conn.execute("select thermocline.apply_seam_tables(%s)", [seam.table_id])
    conn.execute("select thermocline.apply_seam(%s, %s)", [seam.table_id, line])
    if seam.heap.comment is not None:
        conn.execute(
            sql.SQL("comment on view {} is {}").format(table_identifier(objects.seam), sql.Literal(seam.heap.comment))
        )
    apply_capture(conn, objects, objects.spill)


def apply_cutline_literal(conn: Connection, seam: SeamDefinition, line: int) -> None:
    """Rebuild the view with another literal line. Its columns, grants, triggers and defaults stay."""
    conn.execute("select thermocline.apply_view(%s, %s)", [seam.table_id, line])


def apply_capture(conn: Connection, objects: SeamObjects, relation: TableName) -> None:
    """Attach the capture trigger. Its lock waits out every writer in flight, so each later change is captured."""
    conn.execute(
        sql.SQL(
            "create or replace trigger {} after insert or update or delete on {} for each row execute function {}()"
        ).format(sql.Identifier(CAPTURE_TRIGGER), table_identifier(relation), objects.function("capture"))
    )
    fire_always(conn, CAPTURE_TRIGGER, relation)


def fire_always(conn: Connection, trigger: str, relation: TableName) -> None:
    """Let a trigger fire for logical replication's writes too, and for whoever else has session_replication_role =
    replica."""
    conn.execute(
        sql.SQL("alter table {} enable always trigger {}").format(table_identifier(relation), sql.Identifier(trigger))
    )


def apply_grants(conn: Connection, objects: SeamObjects, grants: Iterable[Grant]) -> None:
    """The heap's grants on the seam, column grants included."""
    for grant in grants:
        column = sql.SQL(" ({})").format(sql.Identifier(grant.column)) if grant.column else sql.SQL("")
        role = sql.Identifier(grant.grantee) if grant.grantee else sql.SQL("public")
        option = sql.SQL(" with grant option") if grant.grantable else sql.SQL("")
        conn.execute(
            sql.SQL("grant {}{} on {} to {}{}").format(
                sql.SQL(grant.privilege), column, table_identifier(objects.seam), role, option
            )
        )


def lake_range_tables(table_id: int) -> tuple[TableName, TableName]:
    """The partitioned parent that the lake arm reads, and its empty partition; named as by `thermocline.lake_range`."""
    return TableName("thermocline_lake", f"range_{table_id}"), TableName("thermocline_lake", f"none_{table_id}")


def read_captured(conn: Connection, objects: SeamObjects) -> list[TableName]:
    """The spill and the partitions with a capture trigger of this registration."""
    return [TableName(*row) for row in conn.execute(_QUERIES["captured"], {"function": f"{objects.functions}_capture"})]


def lock_captured(conn: Connection, objects: SeamObjects) -> None:
    """Wait out those who write rows that the lake has. Whether they check the retention line is part of the capture
    function: from the commit on all of them do, so raising the line waits for whoever is not done."""
    for relation in read_captured(conn, objects):
        lock = sql.SQL("lock table only {} in share row exclusive mode")
        conn.execute(lock.format(table_identifier(relation)))


def remove_seam_objects(conn: Connection, table_id: int, objects: SeamObjects, captured: Iterable[TableName]) -> None:
    """Undo `apply_seam_objects`; the spill goes with whatever it still holds, so check it first."""
    conn.execute(sql.SQL("drop view if exists {}").format(table_identifier(objects.seam)))
    for relation in captured:
        conn.execute(
            sql.SQL("drop trigger if exists {} on {}").format(
                sql.Identifier(CAPTURE_TRIGGER), table_identifier(relation)
            )
        )
    conn.execute(sql.SQL("drop table if exists {}").format(table_identifier(objects.spill)))
    conn.execute("select thermocline.release_lake(%s)", [table_id])
    conn.execute(sql.SQL("drop foreign table if exists {}").format(table_identifier(objects.lake)))
    conn.execute(sql.SQL("drop table if exists {}").format(table_identifier(objects.delta)))
    for row in conn.execute(_QUERIES["unused_domains"]).fetchall():
        conn.execute(sql.SQL("drop domain {}").format(sql.Identifier("thermocline_lake", row[0])))
    for what in ("capture", "statement_cut", "route_insert", "route_update", "route_delete"):
        conn.execute(sql.SQL("drop function if exists {}()").format(objects.function(what)))
    conn.execute(sql.SQL("drop function if exists {}(timestamptz)").format(objects.function("as_of")))
