"""Decode one column of several row groups and encode it again as a single chunk.

The chunks are laid out as a Parquet file in memory, with its own footer, so that Arrow decodes all of them in one call.
Dictionary arrays stay dictionary arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.parquet.encode.lake_writer import statistics_columns
from thermocline.parquet.footer.column_chunks import CannotMerge, ChunkFacts, GroupFacts, group_facts, render_row_group
from thermocline.parquet.footer.footer import MAGIC, Footer, render_footer
from thermocline.parquet.footer.leaf_columns import Column, Leaf, PhysicalType, read_columns, render_schema
from thermocline.parquet.thrift import compact_protocol as thrift
from thermocline.parquet.thrift.structs import read_struct

CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4"}
_LEVELLED = frozenset(("zstd", "gzip", "brotli"))
_WIDTHS = {
    PhysicalType.BOOLEAN: 1,
    PhysicalType.INT32: 4,
    PhysicalType.FLOAT: 4,
    PhysicalType.INT64: 8,
    PhysicalType.DOUBLE: 8,
    PhysicalType.INT96: 12,
}
_DICTIONARY_BYTES = 2 << 20
"""The dictionary size limit of Iceberg's own writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPart:
    """The chunks of a column in one row group, with their bytes."""

    rows: int
    chunks: tuple[ChunkFacts, ...]
    data: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedChunk:
    """An encoded chunk. Offsets in `facts` are relative to a file that is never written: `data` begins at
    `facts.start`."""

    facts: ChunkFacts
    data: bytes
    offset_index: bytes
    column_index: bytes


def reencode_column(
    column: Column, parts: Sequence[ColumnPart], made_by: bytes, level: int, most_bytes: int
) -> tuple[EncodedChunk, ...]:
    """Encode the values of all parts as one chunk per leaf. `most_bytes` limits the decoded size."""
    for number, leaf in enumerate(column.leaves):
        _check_size(leaf, [part.chunks[number] for part in parts], most_bytes)
    chunks = [chunk for part in parts for chunk in part.chunks]
    codec = CODECS.get(chunks[0].codec)
    if codec is None:
        raise CannotMerge(f"a codec of number {chunks[0].codec}")
    try:
        table = _decode(column, parts, made_by)
        with_dictionary = any(chunk.dictionary_page for chunk in chunks)
        whole_numbers = all(leaf.kind != PhysicalType.FIXED_LEN_BYTE_ARRAY for leaf in column.leaves)
        sink = pa.BufferOutputStream()
        pq.write_table(
            table,
            sink,
            row_group_size=max(table.num_rows, 1),
            compression=codec,
            compression_level=level if codec in _LEVELLED else None,
            use_dictionary=with_dictionary,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            store_schema=False,
            store_decimal_as_integer=whole_numbers,
            version="2.6",
            write_page_index=True,
            write_statistics=statistics_columns(table.schema),
        )
        return _read_encoded_chunks(column, chunks, sink.getvalue().to_pybytes(), table.num_rows)
    except (pa.ArrowException, OSError, IndexError, KeyError, ValueError) as problem:
        raise CannotMerge(f"column {column.name} cannot be encoded alone: {problem}") from problem


def _check_size(leaf: Leaf, chunks: Sequence[ChunkFacts], most_bytes: int) -> None:
    values = sum(chunk.values for chunk in chunks)
    width = _WIDTHS.get(PhysicalType(leaf.kind), leaf.length or 4)
    if values * width > most_bytes or sum(chunk.plain_bytes for chunk in chunks) > most_bytes:
        raise CannotMerge(f"a column of {values} values in one row group")


def _decode(column: Column, parts: Sequence[ColumnPart], made_by: bytes) -> pa.Table:
    """All rows of the column, in order."""
    pieces, groups, at = [MAGIC], [], len(MAGIC)
    for part in parts:
        moved = []
        for chunk, data in zip(part.chunks, part.data, strict=True):
            moved.append(shift_chunk(chunk, at - chunk.start))
            pieces.append(data)
            at += len(data)
        groups.append(render_row_group(GroupFacts(rows=part.rows, chunks=tuple(moved))))
    like = Footer(version=2, schema=render_schema(column))
    pieces.append(render_footer(like, groups, sum(part.rows for part in parts), {}, made_by))
    first = [part.chunks[0] for part in parts]
    is_text = (
        len(first[0].path) == 1
        and first[0].kind == PhysicalType.BYTE_ARRAY
        and all(chunk.may_be_dictionary for chunk in first)
    )
    # Below lists and structs Arrow cannot read dictionaries of several row groups.
    texts = [column.name] if is_text else []
    with pa.BufferReader(b"".join(pieces)) as source:
        table = pq.ParquetFile(source, read_dictionary=texts, pre_buffer=False).read(use_threads=False)
    return table.unify_dictionaries() if texts else table


def shift_chunk(chunk: ChunkFacts, shift: int) -> ChunkFacts:
    """The chunk at another offset, without its page indexes."""
    dictionary = chunk.dictionary_page + shift if chunk.dictionary_page else 0
    return replace(
        chunk, data_page=chunk.data_page + shift, dictionary_page=dictionary, offset_index=(0, 0), column_index=(0, 0)
    )


def _read_encoded_chunks(
    column: Column, before: Sequence[ChunkFacts], data: bytes, rows: int
) -> tuple[EncodedChunk, ...]:
    """The chunks of the encoded one-column file; they must have the physical types of the table's."""
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = read_struct(data[-8 - size : -8])[0]
    leaves = tuple(leaf for made in read_columns(_schema_of(data, size)) for leaf in made.leaves)
    if leaves != column.leaves:
        raise CannotMerge(f"column {column.name} is stored in a way of its own")
    [group] = [group_facts(found) for found in footer[4]]
    if group.rows != rows or {chunk.codec for chunk in group.chunks} != {chunk.codec for chunk in before}:
        raise CannotMerge(f"column {column.name} cannot be encoded as it was")
    return tuple(
        EncodedChunk(
            facts=replace(chunk, path=was.path),
            data=data[chunk.start : chunk.end],
            offset_index=_cut(data, chunk.offset_index),
            column_index=_cut(data, chunk.column_index),
        )
        for chunk, was in zip(group.chunks, before[: len(leaves)], strict=True)
    )


def _cut(data: bytes, location: tuple[int, int]) -> bytes:
    return data[location[0] : location[0] + location[1]] if location[0] else b""


def _schema_of(data: bytes, footer_bytes: int) -> bytes:
    """The list of schema elements in a footer."""
    footer, at, field_id = data[-8 - footer_bytes : -8], 0, 0
    while True:
        kind, field_id, at = thrift.read_field(footer, at, field_id)
        if field_id == 2 or kind == thrift.STOP:
            return footer[at:]
        at = thrift.skip(footer, at, kind)
