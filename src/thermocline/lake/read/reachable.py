"""Every file that a version of an Iceberg table names: manifest lists, manifests, data and delete files, metadata,
statistics.

Each manifest is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.storage import LakeReader, absolute_path

_VERSION_HINT = "version-hint.text"
_PATH, _SIZE = (
    next(at for at, found in enumerate(DATA_FILE_TYPE[3].fields) if found.field_id == wanted) for wanted in (100, 104)
)

Found = TypeVar("Found")
Places = npt.NDArray[np.uint32]


class ManifestIndex:
    """The manifests of snapshots: each list is read once, and each manifest is held once, whatever the number of lists
    that name it."""

    def __init__(self, io: FileIO | None = None) -> None:
        self._io = io or LakeReader()
        self._manifests: list[ManifestFile] = []
        self._indexes: dict[str, int] = {}
        self._lists: dict[str, Places] = {}

    def reach(self, snapshots: Iterable[Snapshot]) -> Reached:
        """The manifest lists and manifests of these snapshots."""
        lists = frozenset(self._read(snapshot) for snapshot in snapshots)
        named = np.zeros(len(self._manifests), dtype=bool)
        for path in lists:
            named[self._lists[path]] = True
        return Reached(
            lists=lists,
            manifests={self._manifests[at].manifest_path: self._manifests[at] for at in np.flatnonzero(named)},
        )

    def _read(self, snapshot: Snapshot) -> str:
        path = snapshot.manifest_list
        if not path:
            raise LakeFileUnreadable(
                f"Snapshot {snapshot.snapshot_id} names its manifests one by one, as format 1 once did."
            )
        if path not in self._lists:
            found = _readable(path, lambda: list(read_manifest_list(self._io.new_input(path))))
            self._lists[path] = np.array([self._index_of(manifest) for manifest in found], dtype=np.uint32)
        return path

    def _index_of(self, manifest: ManifestFile) -> int:
        index = self._indexes.setdefault(manifest.manifest_path, len(self._manifests))
        if index == len(self._manifests):
            self._manifests.append(manifest)
        return index


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The manifest lists of some snapshots, and each of their manifests once."""

    lists: frozenset[str]
    manifests: dict[str, ManifestFile]


def live_files(manifests: Iterable[ManifestFile], io: FileIO | None = None) -> Iterator[list[tuple[str, int]]]:
    """Path and size of the live files in these manifests, one list per manifest."""
    reader = io or LakeReader()
    for manifest in manifests:
        path = manifest.manifest_path
        yield _readable(path, lambda path=path: _names_in(path, reader))  # type: ignore[misc]


def _names_in(path: str, io: FileIO) -> list[tuple[str, int]]:
    """Path and size of a manifest's live files. Entries are released one by one, because their metrics take most of the
    memory."""
    with AvroFile[ManifestEntry](
        io.new_input(path), MANIFEST_ENTRY_SCHEMAS[3], read_types={-1: ManifestEntry}
    ) as entries:
        living = (entry.data_file._data for entry in entries if entry.status != ManifestEntryStatus.DELETED)
        return [(file[_PATH], file[_SIZE]) for file in living]


def named_by_metadata(metadata: TableMetadata, location: str) -> Iterator[str]:
    """Files that the table's metadata names apart from snapshots: itself, its log, statistics of any kind, the version
    hint."""
    yield location
    yield f"{metadata.location}/metadata/{_VERSION_HINT}"
    yield f"{metadata.location}/metadata/.{_VERSION_HINT}.crc"
    for entry in metadata.metadata_log:
        yield entry.metadata_file
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path


def every_path(metadata: TableMetadata, location: str, io: FileIO | None = None) -> Iterator[str]:
    """Every file that a version of the table names, for all of its snapshots and refs."""
    yield from named_by_metadata(metadata, location)
    reader, base = io or LakeReader(metadata.location), metadata.location
    reached = ManifestIndex(reader).reach(metadata.snapshots)
    for path in (*reached.lists, *reached.manifests):
        yield absolute_path(path, base)
    for files in live_files(reached.manifests.values(), reader):
        yield from (absolute_path(path, base) for path, _ in files)


def _readable(path: str, read: Callable[[], list[Found]]) -> list[Found]:
    try:
        return read()
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        raise LakeFileUnreadable(f"Lake file {path} cannot be read: {problem}.") from problem
