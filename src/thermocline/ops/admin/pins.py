"""The pins as an operator sees them: who holds which snapshot, until when, and what that keeps from being deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import psycopg

from thermocline.catalog import pins, tables
from thermocline.core.messages.nearest import render_nearest
from thermocline.core.names import TableName
from thermocline.core.observation import PartitionObservation
from thermocline.errors import LockNotGranted, NoSuchPin, PinHeldByOther
from thermocline.runtime.pg import Connection, connect
from thermocline.seam.heap.partitions import short_locks


@dataclass(frozen=True, slots=True, kw_only=True)
class PinShown:
    id: int
    table: str
    snapshot_id: int | None
    metadata_location: str | None
    holder: str
    pinned_at: datetime
    expires_at: datetime
    holds_back: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    pin: int
    released: bool

    @property
    def sentence(self) -> str:
        return f"pin {self.pin} is released" if self.released else f"pin {self.pin} is gone already"


def read_pin_list(dsn: str, name: TableName | None) -> tuple[PinShown, ...]:
    """The living pins of one table, or of all."""
    with connect(dsn, autocommit=True, application_name="thermocline pins") as conn:
        table_id = None if name is None else tables.find_table(conn, name).id
        return tuple(
            PinShown(
                id=pin.id,
                table=str(pin.table),
                snapshot_id=pin.snapshot_id,
                metadata_location=pin.metadata_location,
                holder=pin.holder,
                pinned_at=pin.pinned_at,
                expires_at=pin.expires_at,
                holds_back=_what_it_holds_back(pin),
            )
            for pin in pins.read_pins(conn, table_id)
        )


def release(dsn: str, pin: int) -> ReleaseReport:
    """Release a pin as an operator."""
    with connect(dsn, autocommit=True, application_name="thermocline pins") as conn:
        try:
            released = pins.release_pin(conn, pin)
        except psycopg.errors.InsufficientPrivilege as problem:
            said = str(problem.diag.message_primary).removeprefix(f"{PinHeldByOther.code}: ")
            raise PinHeldByOther(f"{said}.") from None
        if not released and not pins.was_ever_taken(conn, pin):
            living = [str(other.id) for other in pins.read_pins(conn)]
            raise NoSuchPin(f"There is no pin {pin}.", hint=render_nearest(str(pin), living, otherwise=NoSuchPin.hint))
        return ReleaseReport(pin=pin, released=released)


def why_pinned(conn: Connection, table_id: int, partition: PartitionObservation, lock_timeout_ms: int) -> str | None:
    """The pin whose reader takes rows of a partition from the heap: its T lies below the partition's end."""
    try:
        with short_locks(conn, lock_timeout_ms, [], "look at the pins"):
            found = [pin for pin in pins.read_pins_to_keep(conn, table_id) if pin.t < partition.hi]
    except LockNotGranted:
        return "a reader takes a pin just now"
    if (last := max(found, key=lambda pin: pin.expires_at, default=None)) is None:
        return None
    return f"pin {last.id} of {last.holder}, until {last.expires_at:%Y-%m-%d %H:%M:%S}, may still read it"


def _what_it_holds_back(pin: pins.Pin) -> str:
    if pin.is_superseded:
        return "the deletion of files that only this older snapshot reaches, and of partitions tiered since"
    return "nothing yet: it is the published snapshot"
