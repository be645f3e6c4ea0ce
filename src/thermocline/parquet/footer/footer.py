"""Parquet footers, split as far as splicing needs and rendered again.

A row group is kept as byte segments, separated by the numbers that depend on the file: offsets, locations of page
indexes and bloom filters, the ordinal. Everything else (statistics, encodings, sizes, fields that this module does not
know) stays byte for byte.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from thermocline.parquet.byte_files import FileSource
from thermocline.parquet.footer.row_group_bytes import Chunk, OffsetKind, RowGroup
from thermocline.parquet.footer.row_group_pattern import GroupPattern, learn_pattern
from thermocline.parquet.rewrite_errors import damaged, not_parquet
from thermocline.parquet.thrift import compact_protocol as thrift

MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"


@dataclass(slots=True)
class Footer:
    """A file's metadata. `schema` and `column_orders` are their bytes as written."""

    version: int = 1
    schema: bytes = b""
    rows: int = 0
    groups: list[RowGroup] = field(default_factory=list)
    pairs: dict[bytes, bytes | None] = field(default_factory=dict)
    created_by: bytes = b""
    column_orders: bytes = b""
    encrypted: bool = False
    size_bytes: int = 0
    data_end: int = 0
    """The offset of the footer."""


@dataclass(slots=True)
class FooterPatterns:
    """What the files read so far have in common, so that the next are read faster: their schema, and patterns of their
    row groups."""

    files: int
    """The number of files to be read."""
    schema: bytes = b""
    groups: list[GroupPattern] = field(default_factory=list)
    unmatched: int = 0
    """Row groups that no pattern matched."""


def read_footer(source: FileSource, patterns: FooterPatterns | None = None) -> Footer:
    """Read the footer of a Parquet file. Files read with the same `patterns` share what was learnt."""
    tail = source.tail()
    if len(tail) < 12 or tail[-4:] not in (MAGIC, _ENCRYPTED_MAGIC):
        raise not_parquet(source.path, source.head())
    if tail[-4:] == _ENCRYPTED_MAGIC:
        return Footer(encrypted=True)
    size = struct.unpack("<I", tail[-8:-4])[0]
    if size + 12 > source.size_bytes:
        raise not_parquet(source.path, source.head())
    data = tail[-8 - size : -8] if size + 8 <= len(tail) else source.read_at(source.size_bytes - 8 - size, size)
    try:
        footer = _read_metadata(data, patterns or FooterPatterns(files=1))
    except (IndexError, ValueError, RecursionError) as problem:
        raise damaged(source.path, "its footer is damaged") from problem
    footer.size_bytes = size
    footer.data_end = source.size_bytes - 8 - size
    if any(
        chunk.start < 4 or chunk.end > footer.data_end
        for group in footer.groups
        if group.rows
        for chunk in group.chunks
    ):
        raise damaged(source.path, "its footer points outside of the file")
    if footer.rows != sum(group.rows for group in footer.groups):
        raise damaged(source.path, "its row groups do not add up")
    return footer


def _read_metadata(data: bytes, patterns: FooterPatterns) -> Footer:
    footer, at, field_id = Footer(), 0, 0
    while True:
        kind, field_id, at = thrift.read_field(data, at, field_id)
        if kind == thrift.STOP:
            return footer
        begin = at
        if field_id == 1:
            footer.version, at = thrift.read_zigzag(data, at)
        elif field_id == 2:
            same = patterns.schema and data.startswith(patterns.schema, at)
            at = at + len(patterns.schema) if same else thrift.skip(data, at, kind)
            footer.schema = patterns.schema = patterns.schema if same else data[begin:at]
        elif field_id == 3:
            footer.rows, at = thrift.read_zigzag(data, at)
        elif field_id == 4:
            _, count, at = thrift.read_list_header(data, at)
            for _ in range(count):
                group, at = _read_row_group(data, at, patterns)
                footer.groups.append(group)
        elif field_id == 5:
            footer.pairs, at = _read_pairs(data, at)
        elif field_id == 6:
            footer.created_by, at = thrift.read_binary(data, at)
        else:
            at = thrift.skip(data, at, kind)
            if field_id == 7:
                footer.column_orders = data[begin:at]
            elif field_id in (8, 9):
                footer.encrypted = True


_LEARN_AFTER = 64
_WORTH_FILES = 4 * _LEARN_AFTER
_MOST_PATTERNS = 4


def _read_row_group(data: bytes, at: int, patterns: FooterPatterns) -> tuple[RowGroup, int]:
    """Read a row group by the first pattern that matches, else field by field. Every so often a row group without a
    pattern teaches a new one."""
    for pattern in patterns.groups:
        if (fits := pattern.pattern.match(data, at)) is not None:
            return pattern.cut(fits, data, at), fits.end()
    patterns.unmatched += 1
    if (
        patterns.unmatched % _LEARN_AFTER == 0
        and patterns.files >= _WORTH_FILES
        and len(patterns.groups) < _MOST_PATTERNS
    ):
        learnt = learn_pattern(data, at)
        patterns.groups += [learnt] if learnt is not None else []
    return _read_group(data, at)


class _RowGroupCutter:
    """Collects the segments of one row group."""

    __slots__ = ("chunk", "data", "group", "left")

    def __init__(self, data: bytes, begin: int) -> None:
        self.data = data
        self.left = begin
        self.group = RowGroup()
        self.chunk = 0

    def number(self, at: int, offset_kind: OffsetKind) -> tuple[int, int]:
        value, after = thrift.read_zigzag(self.data, at)
        self.take(at, after, offset_kind, value)
        return value, after

    def take(self, at: int, after: int, offset_kind: OffsetKind, value: int) -> None:
        """Record a number between two segments."""
        if not 0 <= value < 1 << 62:
            raise IndexError
        self.group.segments.append(self.data[self.left : at])
        self.group.numbers.append((offset_kind, value, self.chunk))
        self.left = after


def _read_group(data: bytes, at: int) -> tuple[RowGroup, int]:
    cut, field_id = _RowGroupCutter(data, at), 0
    while True:
        kind, field_id, at = thrift.read_field(data, at, field_id)
        if kind == thrift.STOP:
            cut.group.segments.append(data[cut.left : at])
            return cut.group, at
        if field_id == 1:
            _, count, at = thrift.read_list_header(data, at)
            for _ in range(count):
                at = _read_chunk(cut, at)
        elif field_id == 3:
            cut.group.rows, at = thrift.read_zigzag(data, at)
        elif field_id == 5:
            _, at = cut.number(at, OffsetKind.DATA)
        elif field_id == 7:
            _, at = cut.number(at, OffsetKind.ORDINAL)
        else:
            at = thrift.skip(data, at, kind)


def _read_chunk(cut: _RowGroupCutter, at: int) -> int:
    data, chunk, field_id = cut.data, Chunk(), 0
    offsets, lengths = [0, 0], [0, 0]
    while True:
        kind, field_id, at = thrift.read_field(data, at, field_id)
        if kind == thrift.STOP:
            chunk.offset_index, chunk.column_index = (offsets[0], lengths[0]), (offsets[1], lengths[1])
            cut.group.chunks.append(chunk)
            cut.chunk += 1
            return at
        if field_id == 2:
            _, at = cut.number(at, OffsetKind.DATA)
        elif field_id == 3:
            at = _read_column(cut, chunk, at)
        elif field_id in (4, 6):
            offsets[(field_id - 4) // 2], at = cut.number(
                at, OffsetKind.OFFSET_INDEX if field_id == 4 else OffsetKind.COLUMN_INDEX
            )
        elif field_id == 5:
            lengths[0], at = cut.number(at, OffsetKind.OFFSET_INDEX_LENGTH)
        elif field_id == 7:
            lengths[1], at = thrift.read_zigzag(data, at)
        else:
            at = thrift.skip(data, at, kind)
            chunk.elsewhere = chunk.elsewhere or field_id in (1, 8, 9)


def _read_column(cut: _RowGroupCutter, chunk: Chunk, at: int) -> int:
    """Half of the work on a footer is done here, so numbers are decoded inline."""
    data, field_id, found = cut.data, 0, [0] * 16
    while True:
        head = data[at]
        at += 1
        if head == thrift.STOP:
            starts = [start for start in found[9:12] if start > 0]
            chunk.start = min(starts, default=0)
            chunk.end = chunk.start + found[7]
            chunk.codec, chunk.bloom = found[4], (found[14], found[15])
            return at
        if head > 0x0F:
            field_id += head >> 4
        else:
            field_id, at = thrift.read_zigzag(data, at)
        kind = head & 0x0F
        if kind not in _NUMBERS:
            at = thrift.skip(data, at, kind)
            continue
        begin, byte = at, data[at]
        at += 1
        value, shift = byte & 0x7F, 7
        while byte > 0x7F:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        value = (value >> 1) ^ -(value & 1)
        if 0 <= field_id < 16:
            found[field_id] = value
            if (offset_kind := _OFFSET_KINDS.get(field_id)) is not None:
                cut.take(begin, at, offset_kind, value)


_NUMBERS = (thrift.I64, thrift.I32, thrift.I16)
_OFFSET_KINDS = {9: OffsetKind.DATA, 10: OffsetKind.DATA, 11: OffsetKind.DATA, 14: OffsetKind.BLOOM}
"""Fields of a column chunk's metadata that depend on the file."""


def has_field_ids(schema: bytes) -> bool:
    """Whether some field of a schema has an id. Without ids, readers find fields by name or by position."""
    _, count, at = thrift.read_list_header(schema, 0)
    for _ in range(count):
        field_id = 0
        while True:
            kind, field_id, at = thrift.read_field(schema, at, field_id)
            if kind == thrift.STOP:
                break
            if field_id == 9:
                return True
            at = thrift.skip(schema, at, kind)
    return False


def _read_pairs(data: bytes, at: int) -> tuple[dict[bytes, bytes | None], int]:
    found: dict[bytes, bytes | None] = {}
    _, count, at = thrift.read_list_header(data, at)
    for _ in range(count):
        key, value, field_id = b"", None, 0
        while True:
            kind, field_id, at = thrift.read_field(data, at, field_id)
            if kind == thrift.STOP:
                break
            text, at = thrift.read_binary(data, at)
            if field_id == 1:
                key = text
            else:
                value = text
        found[key] = value
    return found, at


def render_group(group: RowGroup, moved: Sequence[int]) -> bytes:
    """The row group with each of its numbers replaced, in order."""
    parts: list[bytes] = [b""] * (2 * len(moved) + 1)
    parts[::2] = group.segments
    parts[1::2] = map(thrift.render_zigzag, moved)
    return b"".join(parts)


def render_footer(
    like: Footer, groups: Sequence[bytes], rows: int, pairs: dict[bytes, bytes | None], created_by: bytes
) -> bytes:
    """A complete footer, with its length and the closing magic number."""
    parts = [b"\x15", thrift.render_zigzag(like.version), b"\x19", like.schema, b"\x16", thrift.render_zigzag(rows)]
    parts += [b"\x19", thrift.render_list_header(thrift.STRUCT, len(groups)), *groups]
    last = 4
    if pairs:
        parts += [
            b"\x19",
            thrift.render_list_header(thrift.STRUCT, len(pairs)),
            *(_pair(key, value) for key, value in pairs.items()),
        ]
        last = 5
    if created_by:
        parts += [bytes([(6 - last) << 4 | thrift.BINARY]), thrift.render_binary(created_by)]
        last = 6
    if like.column_orders:
        parts += [bytes([(7 - last) << 4 | thrift.LIST]), like.column_orders]
    parts.append(b"\x00")
    body = b"".join(parts)
    return body + struct.pack("<I", len(body)) + MAGIC


def _pair(key: bytes, value: bytes | None) -> bytes:
    return (
        b"\x18"
        + thrift.render_binary(key)
        + (b"" if value is None else b"\x18" + thrift.render_binary(value))
        + b"\x00"
    )


_PAGE_LOCATION = re.compile(
    rb"\x16([\x80-\xff]*+[\x00-\x7f])\x15[\x80-\xff]*+[\x00-\x7f]\x16[\x80-\xff]*+[\x00-\x7f]\x00"
)
"""A page's offset, size and first row, in the field order of all writers."""


def shift_offset_index(data: bytes, shift: int) -> bytes:
    """An offset index (OffsetIndex) with every page shifted."""
    parts, left, at, field_id = [], 0, 0, 0
    while True:
        kind, field_id, at = thrift.read_field(data, at, field_id)
        if kind == thrift.STOP:
            parts.append(data[left:at])
            return b"".join(parts)
        if field_id != 1:
            at = thrift.skip(data, at, kind)
            continue
        _, count, at = thrift.read_list_header(data, at)
        for _ in range(count):
            if (usual := _PAGE_LOCATION.match(data, at)) is not None:
                begin, after = usual.span(1)
                parts += [data[left:begin], thrift.render_zigzag(thrift.read_zigzag(data, begin)[0] + shift)]
                left, at = after, usual.end()
                continue
            inner = 0
            while True:
                kind, inner, at = thrift.read_field(data, at, inner)
                if kind == thrift.STOP:
                    break
                if inner == 1:
                    value, after = thrift.read_zigzag(data, at)
                    parts += [data[left:at], thrift.render_zigzag(value + shift)]
                    left = at = after
                else:
                    at = thrift.skip(data, at, kind)


def bloom_size(header: bytes) -> int:
    """The length of a bloom filter with its header, for writers that do not state it in the footer."""
    size, at, field_id = 0, 0, 0
    while True:
        kind, field_id, at = thrift.read_field(header, at, field_id)
        if kind == thrift.STOP:
            return size + at
        if field_id == 1:
            size, at = thrift.read_zigzag(header, at)
        else:
            at = thrift.skip(header, at, kind)
