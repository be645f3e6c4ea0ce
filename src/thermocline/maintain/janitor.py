"""Delete staged files that no commit uses, after the grace period of their table.

A file is registered before it is written and leaves the journal in the transaction that publishes it, so what is left
of a finished op should never have been part of a table. The janitor does not rely on it: each file is compared with
what the tables in whose folders it lies name now, and one that is named is forgotten instead of deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from thermocline.catalog import journal
from thermocline.catalog import unregistered_lakes as kept_lakes
from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.catalog.pauses import read_paused_since
from thermocline.catalog.safety import Owner
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.errors import ThermoclineError
from thermocline.errors.maintenance import FolderInUse, LakeTableNotMaintained
from thermocline.lake.catalogs.base import CatalogTable
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.files.delete_files import delete_file
from thermocline.lake.files.delete_trees import folder_forms, forms_meet
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.lake.files.folders import folders_or_guess
from thermocline.lake.files.other_writers import another_owner, find_other_writer
from thermocline.lake.read.reachable import every_path
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.targets import find_owner, read_resolved_policy
from thermocline.ops.register.lake_folders import remove_lake_files
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings

Grace = float | Callable[[Owner], float]


def grace_by_policy(conn: Connection, settings: Settings) -> Callable[[Owner], float]:
    """Each table's own `orphan_grace_hours`, in seconds; the settings' where the table is gone."""

    def grace(owner: Owner) -> float:
        try:
            policy = read_resolved_policy(conn, find_owner(conn, owner), settings).policy
        except LakeTableNotMaintained:
            return settings.staged_grace_seconds
        return timedelta(milliseconds=policy.orphan_grace_ms).total_seconds()

    return grace


def remove_stray_files(conn: Connection, grace_seconds: Grace) -> int:
    """Delete the files of abandoned and retried tasks; the number deleted. A refusal for one table does not stop the
    others."""
    check_lakes_match_journal(conn)
    check_may_change_lakes(conn)
    removed, refusals = 0, list[ThermoclineError]()
    for owner in journal.read_staging_owners(conn):
        try:
            seconds = grace_seconds(owner) if callable(grace_seconds) else grace_seconds
            if paths := journal.read_stray_files(conn, owner, seconds):
                removed += _remove(conn, paths)
        except ThermoclineError as refusal:
            refusals.append(refusal)
    if refusals:
        raise refusals[0]
    return removed


def _remove(conn: Connection, paths: Sequence[str]) -> int:
    """Delete the files that no table names, and remove all of them from the journal."""
    needed = NeededFiles("the journal", None)
    for table, location in _tables_around(conn, paths).items():
        metadata = read_lake_table(location).metadata
        if (found := find_other_writer(metadata, location)) is not None:
            raise another_owner(str(table), found, location)
        needed.need(lambda metadata=metadata, location=location: every_path(metadata, location))  # type: ignore[misc]
    found_free = needed.judge([ListedFile(path=path, size_bytes=0, modified=None) for path in paths])
    for file in found_free.deletable:
        delete_file(file)
    for path in paths:
        journal.forget_file(conn, path)
    return len(found_free.deletable)


def _tables_around(conn: Connection, paths: Sequence[str]) -> dict[CatalogTable, str]:
    """The tables of any catalog that have, or may have, one of the files in a folder of theirs."""
    forms = {form for folder in {path.rpartition("/")[0] for path in paths} for form in folder_forms(folder)}
    return {
        table: location
        for table, location in lake_catalog().read_all_metadata_locations(conn).items()
        if any(forms_meet(forms, folder_forms(place)) for place in folders_or_guess(location).all)
    }


def remove_leftover_lakes(conn: Connection, grace_seconds: float) -> int:
    """Delete the directories of lake tables that a killed registration or unregistration left behind."""
    check_lakes_match_journal(conn)
    check_may_change_lakes(conn)
    if read_paused_since(conn, None) is not None:
        return 0
    removed, refusals = 0, list[FolderInUse]()
    for location in kept_lakes.read_leftovers(conn, grace_seconds):
        try:
            with conn.transaction():
                # A concurrent registration waits for this lock and then finds the directory deleted.
                if kept_lakes.take_location(conn, location):
                    remove_lake_files(conn, location)
                    removed += 1
        except FolderInUse as refusal:
            refusals.append(refusal)
    if refusals:
        raise refusals[0]
    return removed
