"""What Postgres knows of who still needs which snapshot or file, and what is being deleted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.catalog.pins import read_pins_to_keep
from thermocline.errors.maintenance import SafetyInputsUnreadable
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/safety.sql")
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The table a file belongs to: a registered one or one that was added by itself."""

    table_id: int | None = None
    lake_id: int | None = None

    def values(self) -> dict[str, object]:
        return {"table_id": self.table_id, "lake_id": self.lake_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedSnapshots:
    """Snapshots with who needs each, and metadata files that pins name."""

    snapshots: dict[int, str]
    metadata_files: frozenset[str]


def read_protected_snapshots(
    conn: Connection, owner: Owner, pass_id: uuid.UUID | None, standby_grace_seconds: float
) -> ProtectedSnapshots:
    """Who needs what, now. The live snapshots are looked at first and the pins last: a reader goes from the first to
    the second."""
    if owner.table_id is not None and conn.execute(_QUERIES["reads_all_statistics"]).fetchone() != (True,):
        raise SafetyInputsUnreadable(
            "This role may not see other sessions' snapshots: which lake versions are still read is not known."
        )
    values = {**owner.values(), "pass_id": pass_id, "standby_grace_seconds": standby_grace_seconds}
    conn.execute(_QUERIES["note_standbys"], values)
    snapshots: dict[int, str] = {}
    metadata_files: set[str] = set()
    for query in ("of_ops", "protected"):
        for snapshot, holder in conn.execute(_QUERIES[query], values):
            if snapshot is not None:
                snapshots[snapshot] = holder
    if owner.table_id is not None:
        for pin in read_pins_to_keep(conn, owner.table_id):
            if pin.snapshot_id is not None:
                snapshots[pin.snapshot_id] = f"pin {pin.id} of {pin.holder}"
            if pin.metadata_location is not None:
                metadata_files.add(pin.metadata_location)
    return ProtectedSnapshots(snapshots=snapshots, metadata_files=frozenset(metadata_files))


def read_staged(conn: Connection) -> frozenset[str]:
    """Every file that some op has registered and no commit has taken up, of all tables."""
    return frozenset(row[0] for row in conn.execute(_QUERIES["staged"]))


def doom(conn: Connection, owner: Owner, files: Sequence[tuple[str, int]]) -> None:
    """Note files that are about to be deleted."""
    for start in range(0, len(files), _ROWS_AT_ONCE):
        part = files[start : start + _ROWS_AT_ONCE]
        values = {**owner.values(), "paths": [path for path, _ in part], "sizes": [size for _, size in part]}
        conn.execute(_QUERIES["doom"], values)


def read_doomed(conn: Connection, owner: Owner) -> tuple[tuple[str, int], ...]:
    return tuple((path, size) for path, size in conn.execute(_QUERIES["doomed"], owner.values()))


def spare(conn: Connection, paths: Sequence[str]) -> None:
    """Forget files that are gone, or that are needed after all."""
    conn.execute(_QUERIES["spare"], {"paths": list(paths)})


def forget_published(conn: Connection, table_id: int, snapshots: Sequence[int]) -> None:
    """The history of S no longer names snapshots that expired."""
    conn.execute(_QUERIES["forget_published"], {"table_id": table_id, "snapshots": list(snapshots)})


def forget_published_but(conn: Connection, table_id: int, snapshots: Sequence[int]) -> None:
    """The history of S names these snapshots and no others."""
    conn.execute(_QUERIES["forget_published_but"], {"table_id": table_id, "snapshots": list(snapshots)})
