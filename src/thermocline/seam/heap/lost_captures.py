"""Capture triggers that were disabled for a time: until both tiers are compared, the lake may miss changes.

A capture that is found off is noted with the time. It is trusted again when it fires and a comparison at one snapshot
found both tiers equal; a loss noted after that snapshot has another time, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.objects import CAPTURE_TRIGGER

_QUERIES = load_queries("thermocline.seam", "queries/lost_captures.sql")


def why_capture_lost(conn: Connection, table_id: int, relid: int) -> str | None:
    """Why the lake may miss changes of the partition. First the trigger fires, then both are compared, so nothing slips
    between."""
    where = {"table_id": table_id, "relid": relid, "trigger": CAPTURE_TRIGGER}
    if conn.execute(_QUERIES["capture_is_on"], where).fetchone() != (True,):
        conn.execute(_QUERIES["note_capture_lost"], where)
        return (
            f"its capture trigger is gone or disabled, or was for a time, so the lake may miss changes:"
            f" ALTER TABLE … ENABLE ALWAYS TRIGGER {CAPTURE_TRIGGER} first, then run `thermocline verify --repair`"
        )
    if conn.execute(_QUERIES["capture_was_lost"], where).fetchone() == (True,):
        return (
            "its capture trigger was disabled for a time, so the lake may miss changes: run `thermocline verify "
            "--repair`"
        )
    return None


def why_spill_capture_lost(conn: Connection, table_id: int) -> str | None:
    """Why readers may miss rows of the spill."""
    if conn.execute(_QUERIES["note_spill_capture"], {"table_id": table_id}).fetchone() != (True,):
        return None
    return (
        f"the capture trigger of its spill is gone or disabled, or was for a time, so readers may miss rows of it:"
        f" ALTER TABLE … ENABLE ALWAYS TRIGGER {CAPTURE_TRIGGER} first, then run `thermocline verify --repair`"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCapture:
    """A partition, its ends on the axis, and when its capture was last seen off."""

    relid: int
    lo: int
    hi: int
    lost_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCaptures:
    """Partitions, and the spill, whose capture was off for a time and fires again at the moment of a snapshot."""

    partitions: tuple[LostCapture, ...]
    spill_lost_at: datetime | None


def read_lost_captures(conn: Connection, table_id: int) -> LostCaptures:
    values = {"table_id": table_id, "trigger": CAPTURE_TRIGGER}
    with conn.cursor(row_factory=class_row(LostCapture)) as cursor:
        partitions = tuple(cursor.execute(_QUERIES["lost_captures"], values).fetchall())
    spill = conn.execute(_QUERIES["lost_spill_capture"], {"table_id": table_id}).fetchone()
    return LostCaptures(partitions=partitions, spill_lost_at=spill[0] if spill else None)


def trust_spill_capture(conn: Connection, table_id: int, lost: LostCaptures) -> None:
    """Readers see every row of the spill, found at the snapshot at which its capture fired: it is trusted again."""
    if lost.spill_lost_at is not None:
        conn.execute(_QUERIES["trust_spill_capture"], {"table_id": table_id, "lost_at": lost.spill_lost_at})


def trust_captures(conn: Connection, table_id: int, lost: LostCaptures, ranges: Sequence[tuple[int, int]]) -> None:
    """In these ranges, which do not overlap, both tiers agreed at the snapshot at which captures fired: those are
    trusted again."""
    whole = [
        part
        for part in lost.partitions
        if sum(max(0, min(part.hi, hi) - max(part.lo, lo)) for lo, hi in ranges) == part.hi - part.lo
    ]
    if whole:
        values = {
            "table_id": table_id,
            "relids": [part.relid for part in whole],
            "lost_at": [part.lost_at for part in whole],
        }
        conn.execute(_QUERIES["trust_captures"], values)
