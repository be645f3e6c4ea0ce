"""Files of a lake table: what every description of one has, and the two that maintenance plans with.

`lake/read/table_metadata.py::SnapshotFile` adds encoded bounds for scans. Files that are being written, and not in any
manifest yet, are other nouns: `WrittenFile` and `WrittenDeletes` in `parquet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Values = tuple[object, ...]
Ends = tuple[Any, Any]
"""Lowest and highest value of a column in a file, comparable with those of other files; None where unknown."""
DeleteKind = Literal["position", "equality", "vector"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LakeFile:
    """A data or delete file that a manifest of the table names."""

    path: str
    size_bytes: int
    record_count: int
    sequence_number: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveDataFile(LakeFile):
    """A live data file. `ends` and `null_counts` are given for the columns that planning compares."""

    spec_id: int = 0
    partition: Values = ()
    format: str = "parquet"
    sort_order_id: int = 0
    added_ms: int | None = None
    """When the snapshot that added the file was made, if that is still known."""
    order: int = 0
    """The file's place in the order the table was written in."""
    first_row_id: int | None = None
    manifest: str = ""
    ends: Mapping[int, Ends] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] | None = None

    @property
    def group(self) -> tuple[int, Values]:
        return self.spec_id, self.partition


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveDeleteFile(LakeFile):
    """A live delete file. `paths` are the data files a position delete names with how often, when that was read."""

    kind: DeleteKind
    spec_id: int = 0
    partition: Values = ()
    equality_ids: tuple[int, ...] = ()
    referenced_file: str | None = None
    lowest_path: str | None = None
    highest_path: str | None = None
    paths: Mapping[str, int] | None = None
    offset: int = 0
    length: int = 0
    format: str = "parquet"
    manifest: str = ""
    ends: Mapping[int, Ends] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        """What distinguishes one delete from another: several deletion vectors lie in one file."""
        return self.path, self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    """A data file and its tier-key bounds on the axis, both inclusive: what fold and retention plans read."""

    path: str
    lower: int
    upper: int
