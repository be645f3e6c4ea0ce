"""Merge the page indexes of several column chunks: the offset of each page, its first row, its bounds.

Each page keeps its bounds byte for byte. The merged index does not claim that bounds ascend when it comes from several
chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.parquet.footer.column_chunks import CannotMerge
from thermocline.parquet.thrift import compact_protocol as thrift
from thermocline.parquet.thrift.structs import Part, bool_list_field, int_field, list_field, read_struct, render_struct

_UNORDERED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedPages:
    """The indexes of one chunk as stored (empty: none), where its pages were, and how far they and their rows
    shifted."""

    offset_index: bytes
    column_index: bytes
    begin: int
    end: int
    shift: int
    first_row: int


def merge_offset_indexes(chunks: Sequence[ShiftedPages]) -> tuple[bytes, list[int]]:
    """The offset index of all chunks, and the number of pages of each; empty when a chunk has none."""
    if not all(chunk.offset_index for chunk in chunks):
        return b"", []
    locations: list[bytes] = []
    counts: list[int] = []
    for chunk in chunks:
        pages = read_struct(chunk.offset_index)[0][1]
        at, row = chunk.begin, 0
        for page in pages:
            if page[1] != at or page[3] < row:
                raise CannotMerge("a page index that does not fit its pages")
            at, row = at + page[2], page[3]
            moved = [
                int_field(1, page[1] + chunk.shift),
                int_field(2, page[2], thrift.I32),
                int_field(3, page[3] + chunk.first_row),
            ]
            locations.append(render_struct(moved))
        if at != chunk.end or (pages and pages[0][3] != 0):
            raise CannotMerge("a page index that does not fit its pages")
        counts.append(len(pages))
    return render_struct([list_field(1, thrift.STRUCT, locations)]), counts


def merge_column_indexes(chunks: Sequence[ShiftedPages], counts: Sequence[int]) -> bytes:
    """The column index of all chunks, given their numbers of pages; empty when a chunk has none."""
    if len(chunks) != len(counts) or not all(chunk.column_index for chunk in chunks):
        return b""
    empty: list[bool] = []
    lows: list[bytes] = []
    highs: list[bytes] = []
    nulls: list[int] | None = []
    order = _UNORDERED
    for chunk, count in zip(chunks, counts, strict=True):
        found = read_struct(chunk.column_index)[0]
        if {len(found[field]) for field in (1, 2, 3, 5) if field in found} != {count}:
            raise CannotMerge("a page index that does not fit its pages")
        empty += found[1]
        lows += found[2]
        highs += found[3]
        nulls = None if nulls is None or 5 not in found else nulls + found[5]
        order = found[4]
    parts: list[Part] = [bool_list_field(1, empty)]
    parts += [
        list_field(field, thrift.BINARY, [thrift.render_binary(value) for value in values])
        for field, values in ((2, lows), (3, highs))
    ]
    parts.append(int_field(4, order if len(chunks) == 1 else _UNORDERED, thrift.I32))
    if nulls is not None:
        parts.append(list_field(5, thrift.I64, [thrift.render_zigzag(value) for value in nulls]))
    return render_struct(parts)
