"""Deleting the whole folder of a lake table, once no catalog of the database has anything in it."""

from __future__ import annotations

from thermocline.catalog import tables
from thermocline.catalog import unregistered_lakes as kept_lakes
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.files.delete_trees import delete_tree, judge_tree
from thermocline.lake.files.folders import folders_or_guess
from thermocline.runtime.pg import Connection


def remove_lake_files(conn: Connection, location: str) -> None:
    """Delete every file of a lake table that no catalog knows any more; refused when some table has files there."""
    in_use = [
        place
        for metadata in lake_catalog().read_all_metadata_locations(conn).values()
        for place in (metadata, *folders_or_guess(metadata).all)
    ]
    in_use += [*kept_lakes.read_kept_locations(conn), *(table.lake_location for table in tables.read_tables(conn))]
    delete_tree(judge_tree(location, in_use))
