"""Changing the settings of a registered table: lags, lake retention and premake. They hold from its next cycle on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from thermocline.catalog import accepted_jumps, journal, tables
from thermocline.core.axis import render_axis
from thermocline.core.modes.table_settings import (
    RequestedSettings,
    SettingChange,
    TableSettings,
    check_retention_has_width,
    choose_settings,
    list_changes,
)
from thermocline.core.names import TableName
from thermocline.core.plan.preview import TierPreview
from thermocline.errors import SettingsChanged
from thermocline.ops.spanning_table import SpanningTable, read_spanning
from thermocline.ops.tier.confirmed_expiry import Expiry, check_told, read_expiry
from thermocline.ops.tier.read_preview import preview_registered
from thermocline.runtime.pg import Connection, connect, load_queries
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.objects import lock_captured

_QUERIES = load_queries("thermocline.ops", "queries/alter_table.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReport:
    """The settings that changed, what the next cycle does with them, and what they do not undo."""

    table: str
    changes: tuple[SettingChange, ...]
    is_started: bool
    dry_run: bool
    expiry: Expiry | None
    preview: TierPreview
    notes: tuple[str, ...]


def alter(
    dsn: str,
    name: TableName,
    requested: RequestedSettings,
    *,
    settings: Settings,
    dry_run: bool = False,
    told: AlterReport | None = None,
) -> AlterReport:
    """Change what was given, or with `dry_run` say what would change. `told` is the dry run that somebody agreed to:
    when more rows would be deleted by now, nothing is changed."""
    with connect(dsn, autocommit=True, application_name="thermocline alter") as conn:
        table = read_spanning(conn, name)
        held = table.registered.settings
        chosen = choose_settings(table.registered.key_type, table.registered.mode, requested, held)
        report = _plan(conn, table, chosen, dry_run=dry_run)
        if told is not None:
            check_told(table.registered, told.expiry, report.expiry)
        if report.changes and not dry_run:
            _apply(conn, table, chosen, report, settings.lock_timeout_ms)
        return report


def _plan(conn: Connection, table: SpanningTable, chosen: TableSettings, *, dry_run: bool) -> AlterReport:
    registered = table.registered
    changes = list_changes(registered.key_type, registered.settings, chosen)
    if chosen.lake_retention != registered.lake_retention:
        bounds = [(p.lo, p.hi) for p in read_partitions(conn, table.heap, registered.key_type)]
        check_retention_has_width(str(registered.name), chosen.lake_retention, registered.partition_width, bounds)
    altered = replace(
        table,
        registered=replace(
            registered,
            tiering_lag=chosen.tiering_lag,
            reclaim_lag=chosen.reclaim_lag,
            lake_retention=chosen.lake_retention,
            premake=chosen.premake,
        ),
    )
    return AlterReport(
        table=str(registered.name),
        changes=changes,
        is_started=registered.is_started,
        dry_run=dry_run,
        expiry=read_expiry(conn, altered.registered) if chosen.lake_retention != registered.lake_retention else None,
        preview=preview_registered(conn, altered),
        notes=_list_notes(conn, table, chosen),
    )


def _list_notes(conn: Connection, table: SpanningTable, chosen: TableSettings) -> tuple[str, ...]:
    """What the new settings do not bring back."""
    registered, notes = table.registered, []
    cut = journal.read_cutline(conn, registered.id)
    if chosen.tiering_lag > registered.tiering_lag and cut.s is not None:
        line = render_axis(registered.key_type, cut.t)
        notes.append(f"rows below {line} were moved already and stay in the lake: the cut-line does not go back")
    is_longer = chosen.lake_retention is None or (
        registered.lake_retention is not None and chosen.lake_retention > registered.lake_retention
    )
    if chosen.lake_retention != registered.lake_retention and is_longer and cut.r is not None:
        line = render_axis(registered.key_type, cut.r)
        notes.append(f"rows below {line} were deleted already: they do not come back, and none are accepted there")
    return tuple(notes)


def _apply(
    conn: Connection, table: SpanningTable, chosen: TableSettings, report: AlterReport, lock_timeout_ms: int
) -> None:
    registered = table.registered
    with short_locks(conn, lock_timeout_ms, [registered.heap_oid], f"alter {registered.name}"):
        if (registered.lake_retention is None) != (chosen.lake_retention is None):
            lock_captured(conn, table.seam.objects)
        conn.execute(_QUERIES["lock_settings"], {"table_id": registered.id})
        if tables.find_table(conn, registered.name).settings != registered.settings:
            raise SettingsChanged(f"The settings of {registered.name} were changed meanwhile; nothing was changed.")
        tables.change_settings(conn, registered.id, chosen)
        if report.expiry is not None:
            # Whoever shortens the retention was told this line: it need not be accepted once more as a jump.
            accepted_jumps.accept(conn, registered.id, t=None, r=report.expiry.line)
        if (registered.lake_retention is None) != (chosen.lake_retention is None):
            conn.execute(_QUERIES["apply_functions"], {"table_id": registered.id})
        changed = ", ".join(f"{c.setting.replace('_', ' ')} {c.before} → {c.after}" for c in report.changes)
        tables.insert_event(conn, registered.id, "alter", f"{registered.name} is altered: {changed}.")
