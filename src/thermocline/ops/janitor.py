"""Files that no commit took up: known from the journal, deleted after the grace period.

A file is registered before it is written and leaves the journal in the transaction that publishes it, so what is left of a finished op was
never part of the table.
"""

from __future__ import annotations

from thermocline.catalog import journal, kept_lakes
from thermocline.catalog.home import check_home
from thermocline.cold.create import remove_lake_files
from thermocline.lake_files import delete_file
from thermocline.ops.lake_ahead import check_lakes
from thermocline.pg import Connection


def remove_stray_files(conn: Connection, grace_seconds: float) -> int:
    """Delete what abandoned and retried tasks left behind; how many files went."""
    check_lakes(conn)
    check_home(conn)
    removed = 0
    for path in journal.read_stray_files(conn, grace_seconds):
        delete_file(path)
        journal.forget_file(conn, path)
        removed += 1
    return removed


def remove_leftover_lakes(conn: Connection, grace_seconds: float) -> int:
    """Delete the directories of lake tables that a killed registration never made known, or a killed unregistration did not finish."""
    check_lakes(conn)
    check_home(conn)
    removed = 0
    for location in kept_lakes.read_leftovers(conn, grace_seconds):
        with conn.transaction():
            # Whoever registers it at this moment waits for us and finds it gone.
            if kept_lakes.take_location(conn, location):
                remove_lake_files(location)
                removed += 1
    return removed
