"""Add lake tables that are not registered in Postgres to maintenance, and remove them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.catalog.maintenance import lake_tables
from thermocline.catalog.maintenance.forced_passes import read_schedule
from thermocline.catalog.maintenance.passes import pass_lock
from thermocline.catalog.safety import Owner
from thermocline.catalog.tables import insert_event
from thermocline.core.names import TableName
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.errors.maintenance import LakeTableIsRegistered, LakeTableNotMaintained
from thermocline.maintain.format.plugins import plugin_named
from thermocline.maintain.targets import find_target
from thermocline.runtime.pg import connect

_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeChange:
    """The result of adding or removing a table."""

    table: str
    sentence: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainedLine:
    """One table under maintenance, registered or not, in one list."""

    table: str
    lake: str
    registered: bool
    format: str
    next_pass: datetime | None
    state: str | None


def add_table(dsn: str, name: TableName, format: str = ICEBERG.name) -> LakeChange:
    """Add a lake table to maintenance. The table itself is not changed."""
    plugin = plugin_named(format)
    with connect(dsn, autocommit=True, application_name="thermocline lake") as conn:
        if (heap := lake_tables.read_heap_of(conn, name)) is not None:
            raise LakeTableIsRegistered(f"{name} is the lake of {heap}, which is maintained already.")
        plugin.locate(conn, name)
        with conn.transaction():
            lake_tables.note_format(conn, format, [spec.name for spec in plugin.format.operations])
            is_new = lake_tables.add_lake_table(conn, name, format)
            if is_new:
                insert_event(conn, None, "lake add", f"{name} is under maintenance.")
    return LakeChange(
        table=str(name), sentence=f"{name} is under maintenance{'' if is_new else ' already'}", changed=is_new
    )


def remove_table(dsn: str, name: TableName) -> LakeChange:
    """Remove a table, its policy and its history of passes, unless a pass is running. The Iceberg table is not
    changed."""
    with connect(dsn, autocommit=True, application_name="thermocline lake") as conn:
        entry = lake_tables.read_lake_table_entry(conn, name)
        if entry is None:
            raise LakeTableNotMaintained(f"{name} was not added by `thermocline lake add`.")
        from thermocline.ops.unjournaled_commits import check_lakes_match_journal

        check_lakes_match_journal(conn)
        with pass_lock(conn, Owner(lake_id=entry.id), str(name)), conn.transaction():
            lake_tables.remove_lake_table(conn, entry.id)
            insert_event(conn, None, "lake remove", f"{name} is no longer under maintenance.")
    return LakeChange(table=str(name), sentence=f"{name} is no longer under maintenance", changed=True)


def restore_orphans(dsn: str, name: TableName) -> LakeChange:
    """Restore the quarantined orphans of a table that are not deleted yet."""
    with connect(dsn, autocommit=True, application_name="thermocline lake") as conn:
        seen = find_target(conn, name)
        check_may_change_lakes(conn)
        from thermocline.maintain.operations.quarantine import restore_quarantined

        done = restore_quarantined(conn, seen.owner)
        if done.back:
            insert_event(
                conn,
                seen.owner.table_id,
                "lake restore",
                f"{done.back} file(s) of {seen.label} came back from quarantine.",
            )
    sentence = f"{seen.label}: {done.back} file(s) came back from quarantine"
    for note in done.taken[:_NAMED]:
        sentence += f"; {note.kept_at} stays there, because another file is at {note.path} now"
    for note in done.gone[:_NAMED]:
        sentence += f"; {note.path} is gone from both places"
    return LakeChange(table=seen.label, sentence=sentence, changed=done.back > 0)


def read_list(dsn: str) -> tuple[MaintainedLine, ...]:
    with connect(dsn, autocommit=True, application_name="thermocline lake") as conn:
        lines = []
        for one in lake_tables.read_maintained(conn):
            next_pass, state = read_schedule(conn, one.owner)
            lines.append(
                MaintainedLine(
                    table=one.label,
                    lake=str(one.lake),
                    registered=one.heap is not None,
                    format=one.format,
                    next_pass=next_pass,
                    state=state,
                )
            )
        return tuple(lines)
