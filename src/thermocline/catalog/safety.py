"""Snapshots and files that something in Postgres still needs, and files that are about to be deleted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.catalog.pins import read_pins_to_keep
from thermocline.errors.maintenance import SafetyInputsUnreadable
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/safety.sql")
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The table that a file belongs to: a registered one, or a lake table under maintenance alone."""

    table_id: int | None = None
    lake_id: int | None = None

    def values(self) -> dict[str, object]:
        return {"table_id": self.table_id, "lake_id": self.lake_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedSnapshots:
    """Snapshots with what needs each, and the metadata files that pins name."""

    snapshots: dict[int, str]
    metadata_files: frozenset[str]


def read_protected_snapshots(
    conn: Connection, owner: Owner, pass_id: uuid.UUID | None, standby_grace_seconds: float
) -> ProtectedSnapshots:
    """The snapshots that are needed now. Reads the live snapshots first and the pins last, because a reader moves from
    the first to the second."""
    if owner.table_id is not None and conn.execute(_QUERIES["reads_all_statistics"]).fetchone() != (True,):
        raise SafetyInputsUnreadable(
            "This role may not see other sessions' snapshots: which lake versions are still read is not known."
        )
    values = {**owner.values(), "pass_id": pass_id, "standby_grace_seconds": standby_grace_seconds}
    conn.execute(_QUERIES["note_standbys"], values)
    snapshots: dict[int, str] = {}
    metadata_files: set[str] = set()
    for query in ("of_ops", "protected"):
        for row in rows_by_name(conn).execute(_QUERIES[query], values):
            if row.snapshot_id is not None:
                snapshots[row.snapshot_id] = row.holder
    if owner.table_id is not None:
        for pin in read_pins_to_keep(conn, owner.table_id):
            if pin.snapshot_id is not None:
                snapshots[pin.snapshot_id] = f"pin {pin.id} of {pin.holder}"
            if pin.metadata_location is not None:
                metadata_files.add(pin.metadata_location)
    return ProtectedSnapshots(snapshots=snapshots, metadata_files=frozenset(metadata_files))


def read_staged(conn: Connection) -> frozenset[str]:
    """Every file of all tables that an op registered and no commit references yet."""
    return frozenset(row.path for row in rows_by_name(conn).execute(_QUERIES["staged"]))


def doom(conn: Connection, owner: Owner, files: Sequence[tuple[str, int]]) -> None:
    """Record files that are about to be deleted."""
    for start in range(0, len(files), _ROWS_AT_ONCE):
        part = files[start : start + _ROWS_AT_ONCE]
        values = {**owner.values(), "paths": [path for path, _ in part], "sizes": [size for _, size in part]}
        conn.execute(_QUERIES["doom"], values)


def read_doomed(conn: Connection, owner: Owner) -> tuple[tuple[str, int], ...]:
    rows = rows_by_name(conn).execute(_QUERIES["doomed"], owner.values())
    return tuple((row.path, row.size_bytes) for row in rows)


def spare(conn: Connection, paths: Sequence[str]) -> None:
    """Delete the records of files that were deleted, or that are needed after all."""
    conn.execute(_QUERIES["spare"], {"paths": list(paths)})


def forget_published(conn: Connection, table_id: int, snapshots: Sequence[int]) -> None:
    """Delete expired snapshots from the history of S."""
    conn.execute(_QUERIES["forget_published"], {"table_id": table_id, "snapshots": list(snapshots)})


def forget_published_but(conn: Connection, table_id: int, snapshots: Sequence[int]) -> None:
    """Delete all other snapshots from the history of S."""
    conn.execute(_QUERIES["forget_published_but"], {"table_id": table_id, "snapshots": list(snapshots)})
