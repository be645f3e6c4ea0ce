"""What a manifest says of one data file, and what is wrong about it when it is held against the file. Pure data, so
that it travels."""

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
    """One thing a manifest says that the file does not bear out; `column` is None where it is about the file as a
    whole."""

    path: str
    column: str | None
    sentence: str

    def __str__(self) -> str:
        where = f"column {self.column} of {self.path}" if self.column is not None else self.path
        return f"{where}: {self.sentence}"
