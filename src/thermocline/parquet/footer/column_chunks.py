"""The metadata of a column chunk, read in full, and rendered for a chunk made of the pages of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thermocline.parquet.footer.chunk_statistics import Statistics, merge_statistics, read_statistics
from thermocline.parquet.footer.footer import render_group
from thermocline.parquet.footer.leaf_columns import Leaf
from thermocline.parquet.footer.row_group_bytes import RowGroup
from thermocline.parquet.thrift import compact_protocol as thrift
from thermocline.parquet.thrift.structs import (
    Fields,
    Part,
    int_field,
    list_field,
    read_struct,
    render_struct,
    struct_field,
)

_DICTIONARY_ENCODINGS = frozenset((2, 8))
_PLAIN = 0
_PLAIN_OR_DICTIONARY = frozenset((_PLAIN, 2, 3, 4, 8))
_DICTIONARY_PAGE = 2
_DATA_PAGES = (0, 3)


class CannotMerge(Exception):
    """Pages cannot be copied; the bin is re-encoded. This error never leaves the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFacts:
    """One column chunk. `end` is the offset after its last page."""

    kind: int
    encodings: tuple[int, ...]
    path: tuple[bytes, ...]
    codec: int
    values: int
    plain_bytes: int
    size_bytes: int
    data_page: int
    dictionary_page: int = 0
    """The offset of the dictionary page; 0: none."""
    statistics: Statistics | None = None
    pages: Mapping[tuple[int, int], int] | None = None
    """How many pages of each type and encoding; None: the footer does not say."""
    offset_index: tuple[int, int] = (0, 0)
    column_index: tuple[int, int] = (0, 0)
    has_bloom: bool = False

    @property
    def start(self) -> int:
        return self.dictionary_page or self.data_page

    @property
    def end(self) -> int:
        return self.start + self.size_bytes

    @property
    def data_pages(self) -> int | None:
        """The number of data pages; None: the footer does not say."""
        return (
            None if self.pages is None else sum(count for (kind, _), count in self.pages.items() if kind in _DATA_PAGES)
        )

    @property
    def page_kinds(self) -> frozenset[tuple[int, int]]:
        """Type and encoding of its data pages."""
        return frozenset(key for key in self.pages or () if key[0] in _DATA_PAGES)

    @property
    def may_be_dictionary(self) -> bool:
        """Whether Arrow can read the chunk as a dictionary array, whatever its pages are."""
        return self.dictionary_page > 0 and _PLAIN_OR_DICTIONARY.issuperset(self.encodings)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A row group, its chunks in the order of the schema's leaves."""

    rows: int
    chunks: tuple[ChunkFacts, ...]

    @property
    def size_bytes(self) -> int:
        return sum(chunk.size_bytes for chunk in self.chunks)

    @property
    def plain_bytes(self) -> int:
        return sum(chunk.plain_bytes for chunk in self.chunks)


def read_group(group: RowGroup) -> GroupFacts:
    """Read a row group of a footer that was split for splicing."""
    return group_facts(read_struct(render_group(group, [value for _, value, _ in group.numbers]))[0])


def group_facts(found: Fields) -> GroupFacts:
    try:
        return GroupFacts(rows=found[3], chunks=tuple(_chunk_facts(chunk) for chunk in found[1]))
    except (KeyError, TypeError, ValueError) as problem:
        raise CannotMerge("a row group leaves out what it must say") from problem


def _chunk_facts(chunk: Fields) -> ChunkFacts:
    found = chunk[3]
    counts: Counter[tuple[int, int]] | None = None
    if 13 in found:
        counts = Counter()
        for pages in found[13]:
            counts[pages[1], pages[2]] += pages[3]
    facts = ChunkFacts(
        kind=found[1],
        encodings=tuple(found[2]),
        path=tuple(found[3]),
        codec=found[4],
        values=found[5],
        plain_bytes=found[6],
        size_bytes=found[7],
        data_page=found[9],
        dictionary_page=found.get(11, 0),
        statistics=read_statistics(found[12]) if 12 in found else None,
        pages=counts,
        offset_index=(chunk.get(4, 0), chunk.get(5, 0)),
        column_index=(chunk.get(6, 0), chunk.get(7, 0)),
        has_bloom=found.get(14, 0) > 0,
    )
    _check(facts, index_page=found.get(10, 0))
    return facts


def _check(facts: ChunkFacts, index_page: int) -> None:
    uses_dictionary = not _DICTIONARY_ENCODINGS.isdisjoint(facts.encodings)
    if index_page or (uses_dictionary and not facts.dictionary_page):
        raise CannotMerge("pages that are not where they should be")
    if facts.dictionary_page and not 0 < facts.dictionary_page < facts.data_page:
        raise CannotMerge("a dictionary behind its pages")
    if not 0 < facts.start <= facts.data_page <= facts.end:
        raise CannotMerge("pages outside of their chunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChunk:
    """A chunk of the output: the offsets of its pages. `plain_bytes` excludes dictionaries that were not repeated."""

    data_page: int
    dictionary_page: int
    size_bytes: int
    plain_bytes: int


def merge_chunks(leaf: Leaf, chunks: Sequence[ChunkFacts], written: WrittenChunk) -> ChunkFacts:
    """The metadata of a chunk that holds the pages of all of these."""
    pages: Counter[tuple[int, int]] | None = Counter()
    for chunk in chunks:
        if pages is not None:
            pages = None if chunk.pages is None else pages + Counter(chunk.pages)
    if pages is not None:
        pages = Counter({key: min(count, 1) if key[0] == _DICTIONARY_PAGE else count for key, count in pages.items()})
    return ChunkFacts(
        kind=leaf.kind,
        encodings=tuple(dict.fromkeys(encoding for chunk in chunks for encoding in chunk.encodings)),
        path=chunks[0].path,
        codec=chunks[0].codec,
        values=sum(chunk.values for chunk in chunks),
        plain_bytes=written.plain_bytes,
        size_bytes=written.size_bytes,
        data_page=written.data_page,
        dictionary_page=written.dictionary_page,
        statistics=merge_statistics(leaf, [(chunk.values, chunk.statistics) for chunk in chunks]),
        pages=pages,
    )


def may_share_chunk(chunks: Sequence[ChunkFacts]) -> bool:
    """Whether readers that accept a chunk of each of these accept one with all their pages.

    A chunk of one writer has pages of one version and of one encoding, or dictionary pages followed by plain pages once
    the dictionary was full. More is not expected of readers: Arrow makes no dictionary array of a chunk with any other
    encoding after a dictionary, and Spark's vectorised reader returns wrong values where dictionary-encoded pages
    follow plain ones.
    """
    kinds = frozenset[tuple[int, int]]().union(*(chunk.page_kinds for chunk in chunks))
    encodings = {encoding for _, encoding in kinds}
    if len({version for version, _ in kinds}) > 1:
        return False
    if len(encodings) <= 1:
        return True
    return any(encodings == {_PLAIN, dictionary} for dictionary in _DICTIONARY_ENCODINGS) and not _turns_back(chunks)


def _turns_back(chunks: Sequence[ChunkFacts]) -> bool:
    """Whether a dictionary-encoded page would follow a plain one."""
    was_plain = False
    for chunk in chunks:
        encodings = {encoding for _, encoding in chunk.page_kinds}
        if was_plain and not _DICTIONARY_ENCODINGS.isdisjoint(encodings):
            return True
        was_plain = was_plain or _PLAIN in encodings
    return False


def render_row_group(group: GroupFacts, number: int | None = None) -> bytes:
    """Render a row group for a footer; `number` is its ordinal."""
    chunks = [_render_chunk(chunk) for chunk in group.chunks]
    parts = [list_field(1, thrift.STRUCT, chunks), int_field(2, group.plain_bytes), int_field(3, group.rows)]
    parts += [int_field(5, group.chunks[0].start if group.chunks else 0), int_field(6, group.size_bytes)]
    return render_struct(parts if number is None else [*parts, int_field(7, number, thrift.I16)])


def _render_chunk(chunk: ChunkFacts) -> bytes:
    parts: list[Part] = [int_field(2, chunk.start), struct_field(3, _render_metadata(chunk))]
    if chunk.offset_index[0]:
        parts += [int_field(4, chunk.offset_index[0]), int_field(5, chunk.offset_index[1], thrift.I32)]
    if chunk.column_index[0]:
        parts += [int_field(6, chunk.column_index[0]), int_field(7, chunk.column_index[1], thrift.I32)]
    return render_struct(parts)


def _render_metadata(chunk: ChunkFacts) -> bytes:
    parts: list[Part] = [
        int_field(1, chunk.kind, thrift.I32),
        list_field(2, thrift.I32, [thrift.render_zigzag(encoding) for encoding in chunk.encodings]),
        list_field(3, thrift.BINARY, [thrift.render_binary(name) for name in chunk.path]),
        int_field(4, chunk.codec, thrift.I32),
        int_field(5, chunk.values),
        int_field(6, chunk.plain_bytes),
        int_field(7, chunk.size_bytes),
        int_field(9, chunk.data_page),
    ]
    if chunk.dictionary_page:
        parts.append(int_field(11, chunk.dictionary_page))
    if chunk.statistics is not None:
        parts.append(struct_field(12, chunk.statistics.render()))
    if chunk.pages is not None:
        parts.append(
            list_field(13, thrift.STRUCT, [_render_count(*key, count) for key, count in sorted(chunk.pages.items())])
        )
    return render_struct(parts)


def _render_count(page: int, encoding: int, count: int) -> bytes:
    return render_struct(
        [int_field(1, page, thrift.I32), int_field(2, encoding, thrift.I32), int_field(3, count, thrift.I32)]
    )
