"""Read row groups of the same layout by a regular expression learnt from one of them: thousands of small files have the
same writer.

The metadata of a row group is a sequence of typed fields. The pattern has the same fields in the same order and of the
same types, with any number in place of each number. It matches nothing else: a varint ends at its first byte below 128,
and a string is as long as its prefix says. A row group that does not match is read field by field. Learning pays off
from some hundreds of files on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from thermocline.parquet.footer.row_group_bytes import Chunk, OffsetKind, RowGroup
from thermocline.parquet.thrift import compact_protocol as thrift


class ChunkNumber(IntEnum):
    """Numbers of a column chunk that are captured; those of the row group itself come first."""

    FILE_OFFSET = 0
    CODEC = 1
    SIZE = 2
    DATA_PAGE = 3
    INDEX_PAGE = 4
    DICTIONARY_PAGE = 5
    BLOOM = 6
    BLOOM_LENGTH = 7
    OFFSET_INDEX = 8
    OFFSET_INDEX_LENGTH = 9
    COLUMN_INDEX = 10
    COLUMN_INDEX_LENGTH = 11


SLOTS: Final = len(ChunkNumber)
ROWS, GROUP_OFFSET, ORDINAL = range(3)
GROUP_SLOTS: Final = 3
_NUMBER = rb"[\x80-\xff]*+[\x00-\x7f]"
_SLOTS_OF: dict[tuple[str, int], int] = {
    ("group", 3): ROWS,
    ("group", 5): GROUP_OFFSET,
    ("group", 7): ORDINAL,
    ("chunk", 2): ChunkNumber.FILE_OFFSET,
    ("chunk", 4): ChunkNumber.OFFSET_INDEX,
    ("chunk", 5): ChunkNumber.OFFSET_INDEX_LENGTH,
    ("chunk", 6): ChunkNumber.COLUMN_INDEX,
    ("chunk", 7): ChunkNumber.COLUMN_INDEX_LENGTH,
    ("column", 4): ChunkNumber.CODEC,
    ("column", 7): ChunkNumber.SIZE,
    ("column", 9): ChunkNumber.DATA_PAGE,
    ("column", 10): ChunkNumber.INDEX_PAGE,
    ("column", 11): ChunkNumber.DICTIONARY_PAGE,
    ("column", 14): ChunkNumber.BLOOM,
    ("column", 15): ChunkNumber.BLOOM_LENGTH,
}
"""The slot of each captured field."""
_ELSEWHERE = (1, 8, 9)
"""Fields of a chunk that is encrypted or in another file."""
_LONGEST_TEXT = 120
_OTHER_LENGTHS = 6
"""Texts in statistics differ in length between files by a few letters."""


def learn_pattern(data: bytes, at: int) -> GroupPattern | None:
    """The pattern of the row group that begins here; None when it has parts for which a pattern does not pay off."""
    learner = _Learner(data)
    try:
        learner.struct(at, "group")
    except _NoPattern:
        return None
    chunks = learner.chunk + 1
    takes = tuple(_take(slot, chunks) for slot in learner.slots)
    return GroupPattern(pattern=re.compile(b"".join(learner.parts), re.DOTALL), takes=takes, chunks=chunks)


class _NoPattern(Exception):
    """A part for which no pattern is made."""


class _Learner:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.parts: list[bytes] = []
        self.slots: list[int] = []
        self.chunk = -1

    def struct(self, at: int, where: str) -> int:
        self.chunk += where == "chunk"
        field_id = 0
        while True:
            begin = at
            kind, field_id, at = thrift.read_field(self.data, at, field_id)
            self.parts.append(re.escape(self.data[begin:at]))
            if kind == thrift.STOP:
                return at
            if where == "chunk" and field_id in _ELSEWHERE:
                raise _NoPattern
            at = self._value(at, kind, where, field_id)

    def _value(self, at: int, kind: int, where: str, field_id: int) -> int:
        if kind in (thrift.I16, thrift.I32, thrift.I64):
            self._number(where, field_id)
            return thrift.skip(self.data, at, kind)
        if kind == thrift.BINARY:
            return self._text(at)
        if kind == thrift.STRUCT:
            return self.struct(at, "column" if where == "chunk" and field_id == 3 else "other")
        if kind == thrift.LIST:
            return self._list(at, "chunk" if where == "group" and field_id == 1 else "other")
        if kind in (thrift.TRUE, thrift.FALSE):
            return at
        raise _NoPattern

    def _number(self, where: str, field_id: int) -> None:
        slot = _SLOTS_OF.get((where, field_id))
        self.parts.append(_NUMBER if slot is None else b"(" + _NUMBER + b")")
        if slot is not None:
            self.slots.append(slot if where == "group" else GROUP_SLOTS + self.chunk * SLOTS + slot)

    def _text(self, at: int) -> int:
        size, at = thrift.read_varint(self.data, at)
        if size > _LONGEST_TEXT:
            raise _NoPattern
        lengths = range(max(size - _OTHER_LENGTHS, 0), size + _OTHER_LENGTHS + 1)
        self.parts.append(
            b"(?:" + b"|".join(re.escape(bytes([length])) + b".{%d}" % length for length in lengths) + b")"
        )
        return at + size

    def _list(self, at: int, where: str) -> int:
        begin = at
        kind, count, at = thrift.read_list_header(self.data, at)
        self.parts.append(re.escape(self.data[begin:at]))
        for _ in range(count):
            if kind == thrift.STRUCT:
                at = self.struct(at, where)
            elif kind in (thrift.TRUE, thrift.FALSE):
                self.parts.append(b".")
                at += 1
            else:
                at = self._value(at, kind, "other", 0)
        return at


_OFFSET_KINDS = {
    ChunkNumber.FILE_OFFSET: OffsetKind.DATA,
    ChunkNumber.DATA_PAGE: OffsetKind.DATA,
    ChunkNumber.INDEX_PAGE: OffsetKind.DATA,
    ChunkNumber.DICTIONARY_PAGE: OffsetKind.DATA,
    ChunkNumber.BLOOM: OffsetKind.BLOOM,
    ChunkNumber.OFFSET_INDEX: OffsetKind.OFFSET_INDEX,
    ChunkNumber.COLUMN_INDEX: OffsetKind.COLUMN_INDEX,
    ChunkNumber.OFFSET_INDEX_LENGTH: OffsetKind.OFFSET_INDEX_LENGTH,
}


def _take(slot: int, chunks: int) -> tuple[int, OffsetKind | None, int]:
    if slot < GROUP_SLOTS:
        return slot, {GROUP_OFFSET: OffsetKind.DATA, ORDINAL: OffsetKind.ORDINAL}.get(slot), chunks
    chunk, kind = divmod(slot - GROUP_SLOTS, SLOTS)
    return slot, _OFFSET_KINDS.get(ChunkNumber(kind)), chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPattern:
    """`takes` describes each captured number: its slot, its offset kind if it has one, its chunk.

    A slot is a number of the row group, or GROUP_SLOTS + chunk * SLOTS + a slot of the chunk.
    """

    pattern: re.Pattern[bytes]
    takes: tuple[tuple[int, OffsetKind | None, int], ...]
    chunks: int

    def cut(self, fits: re.Match[bytes], data: bytes, left: int) -> RowGroup:
        """The row group that the pattern matched, as `_read_group` would return it."""
        segments: list[bytes] = []
        numbers: list[tuple[OffsetKind, int, int]] = []
        found = [0] * (GROUP_SLOTS + self.chunks * SLOTS)
        for (slot, offset_kind, chunk), (begin, end) in zip(self.takes, fits.regs[1:], strict=True):
            value, shift = data[begin] & 0x7F, 7
            for byte in data[begin + 1 : end]:
                value |= (byte & 0x7F) << shift
                shift += 7
            found[slot] = value = (value >> 1) ^ -(value & 1)
            if offset_kind is not None:
                if not 0 <= value < 1 << 62:
                    raise IndexError
                segments.append(data[left:begin])
                numbers.append((offset_kind, value, chunk))
                left = end
        segments.append(data[left : fits.end()])
        chunks = [_chunk_of(found[base : base + SLOTS]) for base in range(GROUP_SLOTS, len(found), SLOTS)]
        return RowGroup(rows=found[ROWS], chunks=chunks, segments=segments, numbers=numbers)


def _chunk_of(found: list[int]) -> Chunk:
    """A chunk from its numbers, in the order of their slots."""
    _, codec, size, page, index, dictionary, bloom, bloom_length, offsets, offsets_length, columns, columns_length = (
        found
    )
    start = min([begin for begin in (page, index, dictionary) if begin > 0], default=0)
    return Chunk(
        start, start + size, codec, (bloom, bloom_length), (offsets, offsets_length), (columns, columns_length)
    )
