"""Starting and stopping a table: whether its partitions move by themselves. Registration starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from thermocline.catalog import pauses, tables
from thermocline.core.names import TableName
from thermocline.core.plan.preview import TierPreview
from thermocline.ops.spanning_table import read_spanning
from thermocline.ops.tier.confirmed_expiry import Expiry, check_told, read_expiry
from thermocline.ops.tier.read_preview import preview_registered
from thermocline.runtime.pg import connect

STARTED = (
    "tiering: partitions behind the tiering lag move to the lake",
    "drops: moved partitions leave the heap after the reclaim lag",
    "retention: rows of the lake older than the lake retention are deleted",
)
"""What runs by itself only while a table is started."""
ALWAYS = (
    "premake: partitions are made ahead",
    "fold: corrections of moved rows go into the lake",
    "maintenance: files of the lake are compacted, and snapshots nobody needs expire",
)
"""What runs by itself for every registered table that is not paused: none of it takes a row out of either tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """A table that was started, and what its next cycle moves."""

    table: str
    changed: bool
    preview: TierPreview
    expiry: Expiry | None
    """What its lake retention deletes, once it is started."""
    paused_since: datetime | None
    by_itself: tuple[str, ...] = STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """A table that was stopped; one that is `busy` finishes the step it is in."""

    table: str
    changed: bool
    busy: bool
    stops: tuple[str, ...] = STARTED
    goes_on: tuple[str, ...] = ALWAYS


def start(dsn: str, name: TableName, *, dry_run: bool = False, told: StartReport | None = None) -> StartReport:
    """Let the partitions of a table move by themselves, or with `dry_run` say what this does. `told` is the dry run
    that somebody agreed to: when more rows would be deleted by now, nothing is started."""
    with connect(dsn, autocommit=True, application_name="thermocline start") as conn:
        table = read_spanning(conn, name)
        preview = preview_registered(conn, table)
        expiry = read_expiry(conn, table.registered)
        if told is not None:
            check_told(table.registered, told.expiry, expiry)
        changed = not table.registered.is_started if dry_run else tables.start_table(conn, table.registered.id)
        if changed and not dry_run:
            tables.insert_event(
                conn, table.registered.id, "start", f"{name} is started: its partitions move by themselves."
            )
        paused_since = pauses.read_paused_since(conn, table.registered.id)
        return StartReport(table=str(name), changed=changed, preview=preview, expiry=expiry, paused_since=paused_since)


def stop(dsn: str, name: TableName) -> StopReport:
    """Let the partitions of a table move only by hand."""
    with connect(dsn, autocommit=True, application_name="thermocline stop") as conn:
        table = tables.find_table(conn, name)
        changed = tables.stop_table(conn, table.id)
        if changed:
            tables.insert_event(conn, table.id, "stop", f"{name} is stopped: nothing of it moves by itself.")
        return StopReport(table=str(name), changed=changed, busy=pauses.is_busy(conn, table.id))


def list_not_started(dsn: str, *, connect_timeout_seconds: int = 5) -> tuple[str, ...]:
    """The tables that move nothing by themselves; none where there is no catalog."""
    with connect(
        dsn, autocommit=True, application_name="thermocline status", connect_timeout_seconds=connect_timeout_seconds
    ) as conn:
        if conn.execute("select to_regclass('thermocline.tables') is null").fetchone() == (True,):
            return ()
        return tables.read_not_started(conn)
