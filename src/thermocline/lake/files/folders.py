"""Where a table has its files, as its metadata file says: its location, and the folders it writes to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from thermocline.errors import LakeFileUnreadable
from thermocline.lake.files.delete_trees import folder_forms
from thermocline.lake.read.metadata_file import read_metadata_file

PATH_PROPERTIES = ("write.data.path", "write.metadata.path")
_OLD_PATH_PROPERTIES = ("write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFolders:
    """A table's id, its location, and every folder outside of it that the table writes or wrote to."""

    uuid: str | None
    location: str
    others: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """Folders whose files are this table's."""
        return (f"{self.location}/data", f"{self.location}/metadata", *self.others)

    @property
    def all(self) -> tuple[str, ...]:
        return (self.location, *self.others)


@lru_cache(maxsize=4096)
def read_folders(metadata_location: str) -> TableFolders:
    """Read from the metadata file alone, which is immutable; manifests are not read."""
    metadata = read_metadata_file(metadata_location)
    try:
        properties = metadata.get("properties") or {}
        others = [properties[key] for key in (*PATH_PROPERTIES, *_OLD_PATH_PROPERTIES) if properties.get(key)]
        location = metadata["location"].rstrip("/")
        others += _former_locations(metadata, metadata_location, location)
        return TableFolders(
            uuid=metadata.get("table-uuid"), location=location, others=tuple(folder.rstrip("/") for folder in others)
        )
    except (ValueError, KeyError, AttributeError) as problem:
        raise LakeFileUnreadable(f"Lake metadata {metadata_location} cannot be read: {problem}.") from problem


def folders_or_guess(metadata_location: str) -> TableFolders:
    """The folders of a table; where its metadata cannot be read, the folder of the metadata file."""
    try:
        return read_folders(metadata_location)
    except LakeFileUnreadable:
        folder = metadata_location.rpartition("/")[0]
        return TableFolders(uuid=None, location=folder.removesuffix("/metadata"), others=(folder,))


def _former_locations(metadata: dict[str, Any], metadata_location: str, location: str) -> list[str]:
    """Earlier locations of the table, from its older metadata files and manifest lists; older files are still there."""
    named = [metadata_location]
    named += [entry["metadata-file"] for entry in metadata.get("metadata-log") or ()]
    named += [
        snapshot["manifest-list"] for snapshot in metadata.get("snapshots") or () if snapshot.get("manifest-list")
    ]
    folders = {path.rpartition("/")[0] for path in named}
    former = {folder.removesuffix("/metadata") for folder in folders if folder.endswith("/metadata")} | folders
    return sorted(folder for folder in former if folder and not f"{folder}/".startswith(f"{location}/"))


def is_same_folder(one: str, other: str) -> bool:
    """Whether two spellings are, or may be, one folder."""
    return not folder_forms(one).isdisjoint(folder_forms(other))
