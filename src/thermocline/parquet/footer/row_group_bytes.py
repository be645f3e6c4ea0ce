"""A row group as splicing keeps it: byte segments, separated by the numbers that depend on the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class OffsetKind(IntEnum):
    """What a number between two segments of a row group is."""

    DATA = 0
    BLOOM = 1
    OFFSET_INDEX = 2
    COLUMN_INDEX = 3
    ORDINAL = 4
    OFFSET_INDEX_LENGTH = 5


@dataclass(slots=True)
class Chunk:
    """One column chunk: its location, and the locations of its bloom filter and page indexes."""

    start: int = 0
    end: int = 0
    codec: int = 0
    bloom: tuple[int, int] = (0, 0)
    offset_index: tuple[int, int] = (0, 0)
    column_index: tuple[int, int] = (0, 0)
    elsewhere: bool = False
    """Encrypted, or in another file."""


@dataclass(slots=True)
class RowGroup:
    """`segments` has one element more than `numbers`."""

    rows: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    segments: list[bytes] = field(default_factory=list)
    numbers: list[tuple[OffsetKind, int, int]] = field(default_factory=list)
    """The kind of the number, its value, and the chunk it belongs to."""
