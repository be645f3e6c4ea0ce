"""The manifest entry of a data file, and how it differs from the file itself. Plain data: Spark tasks return it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A live data file in a manifest; maps are by field id. `snapshot_id` is that of the commit that added it."""

    path: str
    manifest: str
    format: str
    rows: int
    size_bytes: int
    snapshot_id: int
    split_offsets: tuple[int, ...]
    value_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    nan_counts: Mapping[int, int]
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryProblem:
    """One statement of a manifest that contradicts the file; `column` is None where it concerns the file as a
    whole."""

    path: str
    column: str | None
    sentence: str

    def __str__(self) -> str:
        where = f"column {self.column} of {self.path}" if self.column is not None else self.path
        return f"{where}: {self.sentence}"
