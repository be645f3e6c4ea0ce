"""Whether a lake holds commits that the journal does not know: the database was restored to an earlier moment, or lost
its last commits.

A restore always restarts Postgres, so each start of Postgres has its lakes compared once, before anything of ours
writes or deletes there; `check_may_change_lakes` refuses until that was done. The newest metadata file in each table's
folder is compared with the catalog's pointer: its current snapshot must be one that the pointer's metadata or the
journal knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thermocline.catalog import database_identity
from thermocline.catalog.maintenance.lake_tables import Maintained, read_maintained
from thermocline.core.op_stamp import OP_KEY
from thermocline.errors import LakeFileUnreadable, LakeNewerThanDatabase
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.newer_metadata import NewerMetadata, current_snapshot_of, read_newer_metadata, snapshots_of
from thermocline.runtime.pg import Connection

_VERSIONS_LOOKED_AT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjournaledCommit:
    """A lake table with commits above the one its catalog points at."""

    table: Maintained
    newest: NewerMetadata
    snapshot_id: int | None
    op_id: str | None


def check_lakes_match_journal(conn: Connection) -> None:
    """Compare every lake with the journal once per start of Postgres; refuses when one is ahead. A copy is left to
    `check_may_change_lakes`."""
    if database_identity.are_lakes_checked(conn) or not database_identity.is_original(conn):
        return
    started = database_identity.read_postmaster_start(conn)
    if ahead := read_unjournaled_commits(conn):
        first = ahead[0]
        raise LakeNewerThanDatabase(
            f"The lake of {first.table.label} holds commits that this database does not know (snapshot "
            f"{first.snapshot_id} in"
            f" {first.newest.location.rpartition('/')[2]}): the database was restored to an earlier moment, "
            "or lost its last commits."
        )
    database_identity.record_lakes_checked(conn, started)


def read_unjournaled_commits(conn: Connection) -> tuple[UnjournaledCommit, ...]:
    """The tables whose lake is ahead of the journal."""
    return tuple(
        found for table in read_maintained(conn) if table.format == "iceberg" and (found := _read_ahead(conn, table))
    )


def _read_ahead(conn: Connection, table: Maintained) -> UnjournaledCommit | None:
    if table.metadata_location is None or not (later := read_newer_metadata(table.metadata_location)):
        return None
    try:
        head_snapshots = set(snapshots_of(read_metadata_file(table.metadata_location)))
    except LakeFileUnreadable:
        head_snapshots = set()
    for version in later[:_VERSIONS_LOOKED_AT]:
        try:
            metadata = read_metadata_file(version.location)
        except LakeFileUnreadable:
            continue  # a torn file was never committed
        current = current_snapshot_of(metadata)
        op_id = _op_of(metadata, current)
        if (
            current is not None
            and current not in head_snapshots
            and not (op_id and database_identity.is_op_in_journal(conn, op_id))
        ):
            return UnjournaledCommit(table=table, newest=version, snapshot_id=current, op_id=op_id)
    return None


def _op_of(metadata: Mapping[str, Any], snapshot_id: int | None) -> str | None:
    found: str | None = snapshots_of(metadata).get(snapshot_id or -1, {}).get("summary", {}).get(OP_KEY)
    return found
