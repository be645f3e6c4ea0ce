"""Pausing: nothing of a table, or of any table, moves until it is resumed; reading, writing and capturing go on."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog import pauses, tables
from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, connect

STOPS = (
    "tiering: no partition is sealed, copied or dropped",
    "premake: no partition is made ahead",
    "fold: corrections wait in the delta",
    "retention: no row of the lake expires",
    "janitor: no file of the lake is deleted",
    (
        "maintenance: no pass begins, and one that runs ends at its next step; with every table also passes on "
        "plain lake tables"
    ),
)
GOES_ON = ("reads of both tiers", "writes and their capture into the delta", "health and figures")


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseReport:
    """What was paused or resumed; `busy` tables finish the step they are in."""

    table: str | None
    paused: bool
    changed: bool
    stops: tuple[str, ...] = STOPS
    goes_on: tuple[str, ...] = GOES_ON
    busy: tuple[str, ...] = ()
    still_paused: bool = False


def pause(dsn: str, name: TableName | None) -> PauseReport:
    """Pause one table, or all when none is named."""
    with connect(dsn, autocommit=True, application_name="thermocline pause") as conn:
        chosen = _chosen(conn, name)
        changed = pauses.apply_pause(conn, chosen[0].id if name is not None else None)
        if changed:
            what = str(name) if name is not None else "every table"
            tables.insert_event(conn, chosen[0].id if name is not None else None, "pause", f"{what} is paused.")
        busy = tuple(str(table.name) for table in chosen if pauses.is_busy(conn, table.id))
        return PauseReport(table=None if name is None else str(name), paused=True, changed=changed, busy=busy)


def resume(dsn: str, name: TableName | None) -> PauseReport:
    """Resume one table, or everything; a table stays paused while all are."""
    with connect(dsn, autocommit=True, application_name="thermocline resume") as conn:
        chosen = _chosen(conn, name)
        changed = pauses.apply_resume(conn, chosen[0].id if name is not None else None)
        if changed:
            what = str(name) if name is not None else "every table"
            tables.insert_event(conn, chosen[0].id if name is not None else None, "resume", f"{what} is resumed.")
        still = name is not None and pauses.read_paused_since(conn, chosen[0].id) is not None
        return PauseReport(table=None if name is None else str(name), paused=still, changed=changed, still_paused=still)


def list_paused(dsn: str, *, connect_timeout_seconds: int = 5) -> tuple[str, ...]:
    """What is paused; nothing where there is no catalog."""
    with connect(
        dsn, autocommit=True, application_name="thermocline status", connect_timeout_seconds=connect_timeout_seconds
    ) as conn:
        if conn.execute("select to_regclass('thermocline.paused') is null").fetchone() == (True,):
            return ()
        return pauses.read_paused(conn)


def _chosen(conn: Connection, name: TableName | None) -> tuple[tables.RegisteredTable, ...]:
    if name is not None:
        return (tables.find_table(conn, name),)
    return tables.read_tables(conn)
