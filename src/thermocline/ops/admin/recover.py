"""The `recover` command: after a restore to an earlier moment, the lake is brought to the newest state that agrees with
the database.

Catalog, cut-line and delta went back together with the heap, so the state that agrees is the one the catalog points at,
as long as its files were not expired since. Where the pointer's own metadata file is torn (a power cut between the swap
and the flush, decision 0030), its predecessor is whole, and what the torn file committed was never published.
Recovering deletes nothing: a metadata file above every other makes that state current again, and files that only lost
commits name become orphans, which a later sweep deletes after its grace period. A table that misses files is paused.

    observe metadata files and what is missing → plan the snapshot → write metadata → swap the catalog's pointer and
    note it
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from thermocline.catalog import database_identity, journal, pauses, safety
from thermocline.catalog.maintenance import lake_ops
from thermocline.catalog.maintenance.lake_tables import Maintained, read_maintained
from thermocline.catalog.tables import insert_event
from thermocline.core.plan.recovery import RecoveryCandidate, RecoveryTarget, plan_metadata, plan_target
from thermocline.errors import CopiedDatabase, LakeFileUnreadable, LostRace
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.evolve_schema import write_metadata
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.missing_files import MissingFile, find_missing, read_sizes
from thermocline.lake.read.newer_metadata import (
    NewerMetadata,
    current_snapshot_of,
    read_newer_metadata,
    snapshots_of,
    version_of,
)
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection, connect
from thermocline.seam.schema_changes import note_lake_behind


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecovery:
    """What became of one table's lake."""

    table: str
    state: str
    """`agrees`: nothing to do; `recovered`; `incomplete`: files are missing, and the table is paused."""
    snapshot_id: int | None
    later_versions: int
    missing: tuple[MissingFile, ...] = ()
    went_back: bool = False
    """Whether the metadata file of the head cannot be read, and the one before it was taken."""

    @property
    def sentence(self) -> str:
        if self.state == "agrees":
            return f"The lake of {self.table} agrees with the database."
        if self.state == "recovered" and self.went_back:
            return (
                f"The lake of {self.table} is at snapshot {self.snapshot_id}, in which the metadata file "
                "before the head left it:"
                " the head's own cannot be read."
            )
        if self.state == "recovered":
            return (
                f"The lake of {self.table} is at snapshot {self.snapshot_id}, which agrees with the database;"
                f" {self.later_versions} later metadata files belong to commits that the database lost."
            )
        rows = sum(file.rows for file in self.missing)
        return (
            f"The lake of {self.table} misses {len(self.missing)} files with {rows:,} rows of snapshot "
            f"{self.snapshot_id}, deleted after"
            " the moment that the database was restored to. Bring them back from the store's versions or a "
            "backup and run"
            " `thermocline recover` again, or restore the database to a later moment. The table is paused."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverReport:
    """One entry per table."""

    tables: tuple[TableRecovery, ...]
    dry_run: bool

    @property
    def is_complete(self) -> bool:
        return all(table.state != "incomplete" for table in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    head: str
    metadata: dict[str, dict[str, Any]]
    """Metadata files that can be read, by location: the pointer's own first, then later ones, newest first, then its
    predecessor."""
    later: tuple[NewerMetadata, ...]
    wanted: tuple[int | None, ...]
    """The snapshots that agree with the database, the one to prefer first; none when nobody knows which."""
    published: int | None


def recover(dsn: str, *, dry_run: bool = False) -> RecoverReport:
    """Compare every lake with the database, and bring back what agrees."""
    with connect(dsn, autocommit=True, application_name="thermocline recover") as conn:
        if not database_identity.is_original(conn):
            raise CopiedDatabase(f"Database {conn.info.dbname} is a copy of the one that its lake belongs to.")
        started = database_identity.read_postmaster_start(conn)
        found = tuple(
            _recover(conn, table, dry_run=dry_run) for table in read_maintained(conn) if table.format == "iceberg"
        )
        if not dry_run:
            database_identity.record_lakes_checked(conn, started)
    return RecoverReport(tables=found, dry_run=dry_run)


def _recover(conn: Connection, table: Maintained, *, dry_run: bool) -> TableRecovery:
    with _lock(conn, table):
        if table.metadata_location is None:
            return TableRecovery(table=table.label, state="incomplete", snapshot_id=None, later_versions=0)
        seen = _observe(conn, table, table.metadata_location)
        missing = _find_missing(seen, [snapshot for snapshot in seen.wanted if snapshot is not None])
        complete = {snapshot for snapshot, gone in missing.items() if not gone}
        candidates = [
            RecoveryCandidate(location=location, snapshots=frozenset(snapshots_of(metadata)))
            for location, metadata in seen.metadata.items()
        ]
        target = plan_target(candidates, seen.wanted, complete)
        if target is None:
            return _leave_incomplete(conn, table, seen, missing, dry_run=dry_run)
        agrees = target.location == seen.head and not seen.later and target.snapshot_id == seen.wanted[0]
        if not agrees and not dry_run:
            _apply(conn, table, seen, target)
        state = "agrees" if agrees else "recovered"
        return TableRecovery(
            table=table.label,
            state=state,
            snapshot_id=target.snapshot_id,
            later_versions=len(seen.later),
            went_back=seen.head not in seen.metadata and target.location == table.previous_location,
        )


@contextmanager
def _lock(conn: Connection, table: Maintained) -> Iterator[None]:
    """The writer's place on the table, and a new token: whoever worked before can publish nothing."""
    owner = table.owner
    if owner.table_id is not None:
        with journal.table_lock(conn, owner.table_id, table.label, even_copied=True):
            journal.claim(conn, owner.table_id, even_paused=True)
            yield
    else:
        assert owner.lake_id is not None
        with lake_ops.lake_lock(conn, owner.lake_id, table.label, even_copied=True):
            yield


def _observe(conn: Connection, table: Maintained, head: str) -> _Observation:
    later = read_newer_metadata(head)
    metadata: dict[str, dict[str, Any]] = {}
    for location in (head, *(version.location for version in later), table.previous_location):
        if location is not None and location not in metadata:
            with suppress(LakeFileUnreadable):
                metadata[location] = read_metadata_file(location)
    published = None if table.owner.table_id is None else journal.read_cutline(conn, table.owner.table_id).s
    return _Observation(
        head=head, metadata=metadata, later=later, wanted=_wanted(table, metadata, head, published), published=published
    )


def _wanted(
    table: Maintained, metadata: Mapping[str, Mapping[str, Any]], head: str, published: int | None
) -> tuple[int | None, ...]:
    """The head's snapshot and the published one. An operation that had committed and not published stays committed
    where its files are there: resolving publishes it. Of a table that nobody publishes, the predecessor says where it
    was; without it nobody knows."""
    found = [current_snapshot_of(metadata[head])] if head in metadata else []
    if table.owner.table_id is not None:
        found.append(published)
    elif not found and (before := metadata.get(table.previous_location or "")) is not None:
        found.append(current_snapshot_of(before))
    return tuple(dict.fromkeys(found))


def _find_missing(seen: _Observation, wanted: list[int]) -> dict[int, tuple[MissingFile, ...]]:
    """What each wanted snapshot lacks; one that no metadata file knows lacks its manifest list."""
    found = {}
    for snapshot in wanted:
        location = next(
            (location for location, metadata in seen.metadata.items() if snapshot in snapshots_of(metadata)), None
        )
        nowhere = (MissingFile(path=f"a metadata file that knows snapshot {snapshot}"),)
        found[snapshot] = find_missing(location, snapshot) if location is not None else nowhere
    return found


def _apply(conn: Connection, table: Maintained, seen: _Observation, target: RecoveryTarget) -> None:
    found = seen.metadata[target.location]
    snapshots = snapshots_of(found)
    lists = [str(snapshot.get("manifest-list", "")) for snapshot in snapshots.values()]
    alive = {snapshot for snapshot, size in zip(snapshots, read_sizes(lists), strict=True) if size is not None}
    log = [entry["metadata-file"] for entry in found.get("metadata-log", ())]
    logged = {location for location, size in zip(log, read_sizes(log), strict=True) if size is not None}
    metadata = plan_metadata(found, target.snapshot_id, alive, logged, int(time.time() * 1000))
    above = max([version.version for version in seen.later] + [version_of(seen.head) or 0]) + 1
    written = write_metadata(metadata, seen.head.rpartition("/")[0], above)
    fault_point("recover-written")
    with conn.transaction():
        if not lake_catalog().swap_metadata_location(conn, table.lake, before=seen.head, after=written):
            raise LostRace(
                f"The lake table of {table.label} moved since it was looked at; run `thermocline recover` again."
            )
        if (table_id := table.owner.table_id) is not None:
            safety.forget_published_but(conn, table_id, sorted(alive))
            if target.location != seen.head:
                note_lake_behind(conn, table_id)
            insert_event(
                conn,
                table_id,
                "recover",
                f"{table.label}: the lake is at snapshot {target.snapshot_id} after a restore.",
            )


def _leave_incomplete(
    conn: Connection,
    table: Maintained,
    seen: _Observation,
    missing: dict[int, tuple[MissingFile, ...]],
    *,
    dry_run: bool,
) -> TableRecovery:
    """Nothing of the table moves or is deleted until its files are back."""
    snapshot = seen.published if seen.published in missing else next(iter(missing), None)
    gone = missing[snapshot] if snapshot is not None else (MissingFile(path=seen.head),)
    left = TableRecovery(
        table=table.label, state="incomplete", snapshot_id=snapshot, later_versions=len(seen.later), missing=gone
    )
    if not dry_run and table.owner.table_id is not None:
        pauses.apply_pause(conn, table.owner.table_id)
        insert_event(conn, table.owner.table_id, "recover", left.sentence)
    return left
