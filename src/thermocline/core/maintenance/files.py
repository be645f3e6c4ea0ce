"""An Iceberg table as maintenance sees it: data files, delete files, and which delete file may hide rows of which data
file.

Pure. The rules are Iceberg's own: an equality delete hides rows of data files with a *smaller* sequence number, in its
own partition, or in every partition when its spec has no fields; a position delete hides rows of files it names whose
sequence number is not larger; a deletion vector belongs to one file. Bounds that exclude a match make the relation
narrower, never wider. Paths are compared in one spelling, and a relative one means the file whose path ends so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """A field of a partition spec, with its transform in Iceberg's words."""

    name: str
    source: str
    transform: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LakeSnapshot:
    """One snapshot of a table. `partition_texts` are partition values as people write them, by group and field name."""

    snapshot_id: int
    sequence_number: int
    format_version: int
    data: tuple[LiveDataFile, ...]
    deletes: tuple[LiveDeleteFile, ...] = ()
    specs: Mapping[int, tuple[PartitionField, ...]] = field(default_factory=dict)
    default_spec_id: int = 0
    partition_texts: Mapping[tuple[int, Values], Mapping[str, str]] = field(default_factory=dict)

    def is_partitioned(self, spec_id: int) -> bool:
        return any(part.transform != "void" for part in self.specs.get(spec_id, ()))


class DeleteIndex:
    """Which delete files may hide rows of a data file."""

    def __init__(self, seen: LakeSnapshot) -> None:
        self._globals: list[LiveDeleteFile] = []
        self._equality: dict[tuple[int, Values], list[LiveDeleteFile]] = defaultdict(list)
        self._by_path: dict[str, list[LiveDeleteFile]] = defaultdict(list)
        self._ranges: dict[tuple[int, Values], list[LiveDeleteFile]] = defaultdict(list)
        self._data = seen.data
        for delete in seen.deletes:
            self._add(delete, seen.is_partitioned(delete.spec_id))

    def _add(self, delete: LiveDeleteFile, partitioned: bool) -> None:
        if delete.kind == "equality":
            (self._equality[delete.spec_id, delete.partition] if partitioned else self._globals).append(delete)
        elif delete.referenced_file is not None:
            self._name(delete, delete.referenced_file)
        elif delete.paths is not None:
            for path in delete.paths:
                self._name(delete, path)
        else:
            self._ranges[delete.spec_id, delete.partition].append(delete)

    def _name(self, delete: LiveDeleteFile, path: str) -> None:
        named = [file.path for file in self._data if names_file(path, file.path)] if is_relative(path) else [path]
        for found in named:
            self._by_path[plain_path(found)].append(delete)

    def of(self, file: LiveDataFile) -> tuple[LiveDeleteFile, ...]:
        """The deletes of a data file, oldest first."""
        named = [d for d in self._by_path.get(plain_path(file.path), ()) if file.sequence_number <= d.sequence_number]
        near = [
            d
            for d in self._ranges.get(file.group, ())
            if file.sequence_number <= d.sequence_number and _may_name(d, file.path)
        ]
        equal = [
            delete
            for delete in (*self._equality.get(file.group, ()), *self._globals)
            if file.sequence_number < delete.sequence_number and _may_equal(delete, file)
        ]
        vectors = [d for d in named if d.kind == "vector"]
        # Once a file has a deletion vector, the vector holds every position that was deleted before it.
        positions = vectors or [*named, *near]
        return tuple(
            sorted((*positions, *equal), key=lambda delete: (delete.sequence_number, delete.path, delete.offset))
        )


def is_same_entry(now: LiveDataFile, then: LiveDataFile) -> bool:
    """Whether a data file is in the table as it was: one that left and came back is younger, and older deletes no
    longer reach it.

    A file from before an upgrade to version 3 gets the ids of its rows with the next commit: who read it before would
    give them others.
    """
    return (now.sequence_number, now.group, now.first_row_id) == (then.sequence_number, then.group, then.first_row_id)


def plain_path(path: str) -> str:
    """The path without a `file:` scheme, `s3a:` and `s3n:` as `s3:`, so that its spellings are equal."""
    if path.startswith("file:"):
        rest = path.removeprefix("file:")
        return "/" + rest.lstrip("/")
    return "s3" + path[3:] if path.startswith(("s3a://", "s3n://")) else path


def is_relative(path: str) -> bool:
    """Whether a path names neither a store nor a root."""
    return not path.startswith("/") and ":/" not in path


def names_file(reference: str, path: str) -> bool:
    """Whether a path in a delete file refers to this data file."""
    if is_relative(reference):
        return plain_path(path).endswith(f"/{reference}")
    return plain_path(reference) == plain_path(path)


def _may_name(delete: LiveDeleteFile, path: str) -> bool:
    plain = plain_path(path)
    low, high = delete.lowest_path, delete.highest_path
    if is_relative(low or "/") or is_relative(high or "/"):
        return True
    return (low is None or plain_path(low) <= plain) and (high is None or plain <= plain_path(high))


def _may_equal(delete: LiveDeleteFile, file: LiveDataFile) -> bool:
    """Whether some row of the file can have the delete's key: the columns' ranges meet, or both have NULLs."""
    return all(_column_may_meet(delete, file, field_id) for field_id in delete.equality_ids)


def _column_may_meet(delete: LiveDeleteFile, file: LiveDataFile, field_id: int) -> bool:
    if _may_have_null(delete, field_id) and _may_have_null(file, field_id):
        return True
    if _is_all_null(delete, field_id) or _is_all_null(file, field_id):
        return False
    low, high = delete.ends.get(field_id, (None, None))
    lowest, highest = file.ends.get(field_id, (None, None))
    if low is None or high is None or lowest is None or highest is None:
        return True
    return bool(low <= highest and lowest <= high)


def _may_have_null(file: LiveDataFile | LiveDeleteFile, field_id: int) -> bool:
    return file.null_counts.get(field_id, 1) > 0


def _is_all_null(file: LiveDataFile | LiveDeleteFile, field_id: int) -> bool:
    values, nulls = file.value_counts.get(field_id), file.null_counts.get(field_id)
    return values is not None and nulls is not None and 0 < values == nulls


def unneeded_deletes(
    seen: LakeSnapshot, gone: Iterable[str] = (), later: Sequence[LiveDataFile] = ()
) -> tuple[LiveDeleteFile, ...]:
    """The delete files that can hide no row of any data file, after `gone` files left and `later` ones came.

    A global equality delete is needed as long as any older data file may hold its keys, whatever that file's spec.
    """
    if not seen.deletes:
        return ()
    left, index = set(gone), DeleteIndex(seen)
    needed = {delete.key for file in (*seen.data, *later) if file.path not in left for delete in index.of(file)}
    return tuple(delete for delete in seen.deletes if delete.key not in needed)


def endangered_deletes(
    seen: LakeSnapshot, gone: Iterable[str], unneeded: Iterable[LiveDeleteFile], last_sequence: int
) -> tuple[LiveDeleteFile, ...]:
    """Equality deletes that are needed and that Iceberg would drop all the same when `gone` files are replaced by files
    that keep an age.

    Iceberg drops every delete file older than the oldest data file that *stays*, and does not look at the age of the
    files that come.
    """
    left, free = set(gone), {delete.key for delete in unneeded}
    floor = min((file.sequence_number for file in seen.data if file.path not in left), default=last_sequence)
    floor = min(floor, last_sequence)
    return tuple(d for d in seen.deletes if d.kind == "equality" and d.key not in free and d.sequence_number < floor)
