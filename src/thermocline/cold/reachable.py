"""Every file that a version of an Iceberg table names: manifest lists, manifests, data and delete files, metadata, statistics.

Each manifest is read once. Paths that must not be deleted are kept as 64-bit hashes: two
paths with one hash keep a file too many, never one too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import DATA_FILE_TYPE, MANIFEST_ENTRY_SCHEMAS, ManifestEntry, ManifestEntryStatus, ManifestFile, read_manifest_list
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from thermocline.cold.storage import LakeReader, whole_path
from thermocline.errors import LakeFileUnreadable
from thermocline.locations import without_file_scheme

_HASHES_AT_ONCE = 65_536
_VERSION_HINT = "version-hint.text"
_PATH, _SIZE = (next(at for at, found in enumerate(DATA_FILE_TYPE[3].fields) if found.field_id == wanted) for wanted in (100, 104))

Found = TypeVar("Found")
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.uint32]


def hash_path(path: str) -> int:
    """A path's place in a `PathSet`; the spellings of one local file are equal."""
    return int.from_bytes(blake2b(without_file_scheme(path).encode(), digest_size=8).digest(), "little")


class PathSet:
    """Paths that somebody needs, eight bytes each."""

    def __init__(self) -> None:
        self._sorted: Hashes = np.empty(0, dtype=np.uint64)
        self._new: list[int] = []

    def add(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._new.append(hash_path(path))
            if len(self._new) >= _HASHES_AT_ONCE + len(self._sorted) // 4:
                self._settle()

    def __contains__(self, path: object) -> bool:
        return bool(self.which([str(path)])[0])

    def which(self, paths: Sequence[str]) -> npt.NDArray[np.bool_]:
        """For each path whether somebody needs it."""
        self._settle()
        wanted = np.fromiter((hash_path(path) for path in paths), dtype=np.uint64, count=len(paths))
        places = np.searchsorted(self._sorted, wanted)
        found = np.zeros(len(wanted), dtype=np.bool_)
        inside = places < len(self._sorted)
        found[inside] = self._sorted[places[inside]] == wanted[inside]
        return found

    def __len__(self) -> int:
        self._settle()
        return len(self._sorted)

    def _settle(self) -> None:
        if self._new:
            self._sorted = np.union1d(self._sorted, np.array(self._new, dtype=np.uint64))
            self._new = []


class ManifestIndex:
    """The manifests of snapshots: each list is read once, each manifest is held once, however many lists name it."""

    def __init__(self, io: FileIO | None = None) -> None:
        self._io = io or LakeReader()
        self._manifests: list[ManifestFile] = []
        self._places: dict[str, int] = {}
        self._lists: dict[str, Places] = {}

    def reach(self, snapshots: Iterable[Snapshot]) -> Reached:
        """What these snapshots reach."""
        lists = frozenset(self._read(snapshot) for snapshot in snapshots)
        named = np.zeros(len(self._manifests), dtype=bool)
        for path in lists:
            named[self._lists[path]] = True
        return Reached(lists=lists, manifests={self._manifests[at].manifest_path: self._manifests[at] for at in np.flatnonzero(named)})

    def _read(self, snapshot: Snapshot) -> str:
        path = snapshot.manifest_list
        if not path:
            raise LakeFileUnreadable(f"Snapshot {snapshot.snapshot_id} names its manifests one by one, as format 1 once did.")
        if path not in self._lists:
            found = _readable(path, lambda: list(read_manifest_list(self._io.new_input(path))))
            self._lists[path] = np.array([self._place(manifest) for manifest in found], dtype=np.uint32)
        return path

    def _place(self, manifest: ManifestFile) -> int:
        place = self._places.setdefault(manifest.manifest_path, len(self._manifests))
        if place == len(self._manifests):
            self._manifests.append(manifest)
        return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What some snapshots reach: their manifest lists, and each of their manifests once."""

    lists: frozenset[str]
    manifests: dict[str, ManifestFile]


def live_files(manifests: Iterable[ManifestFile], io: FileIO | None = None) -> Iterator[list[tuple[str, int]]]:
    """Path and size of the files that are alive in these manifests, one list per manifest."""
    reader = io or LakeReader()
    for manifest in manifests:
        path = manifest.manifest_path
        yield _readable(path, lambda path=path: _names_in(path, reader))  # type: ignore[misc]


def _names_in(path: str, io: FileIO) -> list[tuple[str, int]]:
    """Path and size of a manifest's live files; entries are let go of one by one, because their metrics are most of them."""
    with AvroFile[ManifestEntry](io.new_input(path), MANIFEST_ENTRY_SCHEMAS[3], read_types={-1: ManifestEntry}) as entries:
        living = (entry.data_file._data for entry in entries if entry.status != ManifestEntryStatus.DELETED)
        return [(file[_PATH], file[_SIZE]) for file in living]


def named_by_metadata(metadata: TableMetadata, location: str) -> Iterator[str]:
    """Files the table's metadata names apart from snapshots: itself, its history, statistics of any kind, the version hint."""
    yield location
    yield f"{metadata.location}/metadata/{_VERSION_HINT}"
    yield f"{metadata.location}/metadata/.{_VERSION_HINT}.crc"
    for entry in metadata.metadata_log:
        yield entry.metadata_file
    for statistics in (*metadata.statistics, *metadata.partition_statistics):
        yield statistics.statistics_path


def every_path(metadata: TableMetadata, location: str, io: FileIO | None = None) -> Iterator[str]:
    """Every file a version of the table names, for all of its snapshots and refs; each manifest is read once."""
    yield from named_by_metadata(metadata, location)
    reader, base = io or LakeReader(metadata.location), metadata.location
    reached = ManifestIndex(reader).reach(metadata.snapshots)
    for path in (*reached.lists, *reached.manifests):
        yield whole_path(path, base)
    for files in live_files(reached.manifests.values(), reader):
        yield from (whole_path(path, base) for path, _ in files)


def _readable(path: str, read: Callable[[], list[Found]]) -> list[Found]:
    try:
        return read()
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        raise LakeFileUnreadable(f"Lake file {path} cannot be read: {problem}.") from problem
