"""Where a table has its files, as its metadata file says: its location, and the folders it was told to write to."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from dataclasses import dataclass

from thermocline.cold.storage import LakeReader
from thermocline.core.maintenance.files import plain_path
from thermocline.errors import LakeFileUnreadable

PATH_PROPERTIES = ("write.data.path", "write.metadata.path")
_OLD_PATH_PROPERTIES = ("write.object-storage.path", "write.folder-storage.path")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFolders:
    """A table's id, its location, and every folder that it writes to outside of the usual ones."""

    uuid: str | None
    location: str
    others: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """Folders whose files are this table's."""
        return (f"{self.location}/data", f"{self.location}/metadata", *self.others)


def read_folders(metadata_location: str) -> TableFolders:
    """From the metadata file alone; snapshots are not looked at."""
    with closing(LakeReader().new_input(metadata_location).open()) as source:
        data = source.read()
    try:
        told = json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)
        said = told.get("properties") or {}
        others = [said[key] for key in (*PATH_PROPERTIES, *_OLD_PATH_PROPERTIES) if said.get(key)]
        return TableFolders(
            uuid=told.get("table-uuid"), location=told["location"].rstrip("/"), others=tuple(place.rstrip("/") for place in others)
        )
    except (OSError, ValueError, KeyError, AttributeError) as problem:
        raise LakeFileUnreadable(f"Lake metadata {metadata_location} cannot be read: {problem}.") from problem


def folder_of(path: str) -> str:
    """The folder a file lies in, in the one spelling that others are compared in."""
    return plain_path(path).rpartition("/")[0]


def is_below(path: str, folder: str) -> bool:
    """Whether a place is the folder, or lies in it."""
    return f"{plain_path(path).rstrip('/')}/".startswith(f"{plain_path(folder).rstrip('/')}/")
