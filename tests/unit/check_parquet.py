"""What a Parquet file says of itself held against what is in it: pages walked one by one, bounds against every value.

A bound that is wrong loses rows in readers that believe it, so nothing a footer or a page index says goes unchecked.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.parquet.footer.leaf_columns import Column, Leaf, read_columns, statistics_decoder
from thermocline.parquet.thrift.structs import Fields, read_struct

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The facts found in a file."""

    groups: int
    pages: int
    bounded_chunks: int
    bounded_pages: int
    encodings: tuple[frozenset[int], ...]
    """Of the data pages of each leaf, all row groups together."""


def check_parquet(path: str | Path) -> Seen:
    """Raise where the file's metadata contradicts its values."""
    data = Path(path).read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = read_struct(data[-8 - size : -8])[0]
    columns = read_columns(_schema_list(footer, data[-8 - size : -8]))
    leaves = [leaf for column in columns for leaf in column.leaves]
    file = pq.ParquetFile(path)
    pages = bounded_chunks = bounded_pages = 0
    encodings: list[set[int]] = [set() for _ in leaves]
    for number, group in enumerate(footer[4]):
        assert group.get(7, number) == number
        assert group[2] == sum(chunk[3][6] for chunk in group[1])
        assert group[6] == sum(chunk[3][7] for chunk in group[1])
        table = file.read_row_group(number)
        for place, (leaf, chunk) in enumerate(zip(leaves, group[1], strict=True)):
            found, used = _check_pages(data, chunk, leaf, group[3])
            pages += found
            encodings[place] |= used
            values = _physical(table, columns, place)
            if values is not None:
                bounded_chunks += _check_chunk(chunk[3], leaf, values)
                bounded_pages += _check_column_index(data, chunk, leaf, values)
    assert sum(group[3] for group in footer[4]) == footer[3] == file.metadata.num_rows
    return Seen(
        groups=len(footer[4]),
        pages=pages,
        bounded_chunks=bounded_chunks,
        bounded_pages=bounded_pages,
        encodings=tuple(map(frozenset, encodings)),
    )


def _schema_list(footer: Fields, raw: bytes) -> bytes:
    """The schema's bytes: behind the version, whose number takes one byte."""
    assert raw[0] == 0x15
    assert raw[2] == 0x19
    assert footer[2]
    return raw[3:]


def _check_pages(data: bytes, chunk: Fields, leaf: Leaf, rows: int) -> tuple[int, set[int]]:
    """Walk the pages of a chunk; how many hold values, and their encodings."""
    told = chunk[3]
    at = begin = told.get(11) or told[9]
    counts: Counter[tuple[int, int]] = Counter()
    plain = values = 0
    starts = []
    while at < begin + told[7]:
        header, after = read_struct(data, at)
        kind = header[1]
        inner = header[{_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}[kind]]
        counts[kind, inner[4 if kind == _DATA_V2 else 2]] += 1
        plain += after - at + header[2]
        if kind == _DICTIONARY:
            assert at == told[11]
        else:
            values += inner[1]
            starts.append((at, after + header[3] - at))
        at = after + header[3]
    assert at == begin + told[7]
    assert plain == told[6]
    assert values == told[5]
    assert told[9] == starts[0][0]
    used = {encoding for (kind, encoding) in counts if kind != _DICTIONARY}
    assert used <= set(told[2])
    if 13 in told:
        said: Counter[tuple[bool, int]] = Counter()
        for one in told[13]:
            said[one[1] == _DICTIONARY, one[2]] += one[3]
        # Arrow calls pages of version 2 by the name of version 1 here.
        for (kind, encoding), count in counts.items():
            said[kind == _DICTIONARY, encoding] -= count
        assert not any(said.values())
    if 4 in chunk:
        index, after = read_struct(data, chunk[4])
        assert after == chunk[4] + chunk[5]
        assert [(page[1], page[2]) for page in index[1]] == starts
        firsts = [page[3] for page in index[1]]
        assert firsts[0] == 0
        assert [*firsts, rows] == sorted([*firsts, rows])
        if leaf.repetitions == 0:
            _check_rows(data, index[1], rows)
    return len(starts), used


def _check_rows(data: bytes, pages: list[Fields], rows: int) -> None:
    ends = [*(page[3] for page in pages[1:]), rows]
    for page, end in zip(pages, ends, strict=True):
        header = read_struct(data, page[1])[0]
        assert header[5 if header[1] == _DATA else 8][1] == end - page[3]


def _physical(table: pa.Table, columns: tuple[Column, ...], place: int) -> list[Any] | None:
    """The values of a flat column as its statistics have them; None for nested ones."""
    number = next(
        (at for at, column in enumerate(columns) if column.first_leaf == place and len(column.leaves) == 1), None
    )
    if number is None or pa.types.is_nested(table.schema.field(number).type):
        return None
    array, kind = table.column(number), table.schema.field(number).type
    if pa.types.is_dictionary(kind):
        array, kind = array.cast(kind.value_type), kind.value_type
    if pa.types.is_decimal(kind):
        return [
            None if value is None else int(value.scaleb(kind.scale, decimal.Context(prec=50)))
            for value in array.to_pylist()
        ]
    if pa.types.is_date(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_time(kind):
        array = array.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif pa.types.is_timestamp(kind):
        array = array.cast(pa.int64())
    elif isinstance(kind, pa.UuidType):
        return [None if value is None else value.bytes for value in array.to_pylist()]
    found = array.to_pylist()
    return [value.encode() if isinstance(value, str) else value for value in found]


def _check_chunk(told: Fields, leaf: Leaf, values: list[Any]) -> int:
    if 12 not in told:
        return 0
    found = told[12]
    if 3 in found:
        assert found[3] == sum(value is None for value in values)
    here = _numbers(values)
    pairs = [(found[low], found[high]) for low, high in ((6, 5), (2, 1)) if low in found]
    for low, high in pairs:
        _check_bounds(leaf, low, high, values)
        if here and found.get(8, True) and found.get(7, True):
            key = statistics_decoder(leaf)
            assert (key(low), key(high)) == (min(here), max(here))
    return len(pairs) > 0


def _numbers(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))]


def _check_bounds(leaf: Leaf, low: bytes, high: bytes, values: list[Any]) -> None:
    key = statistics_decoder(leaf)
    lowest, highest = key(low), key(high)
    assert all(lowest <= value <= highest for value in _numbers(values))
    if isinstance(lowest, float) and isinstance(highest, float):
        assert math.copysign(1, lowest) < 0 or lowest != 0.0, "a lower bound of nought is -0.0"
        assert math.copysign(1, highest) > 0 or highest != 0.0, "an upper bound of nought is +0.0"


def _check_column_index(data: bytes, chunk: Fields, leaf: Leaf, values: list[Any]) -> int:
    if 6 not in chunk:
        return 0
    index, after = read_struct(data, chunk[6])
    assert after == chunk[6] + chunk[7]
    firsts = [page[3] for page in read_struct(data, chunk[4])[0][1]]
    pages = [values[begin:end] for begin, end in zip(firsts, [*firsts[1:], len(values)], strict=True)]
    assert {len(index[field]) for field in (1, 2, 3, 5) if field in index} == {len(pages)}
    for number, page in enumerate(pages):
        assert index[1][number] == all(value is None for value in page)
        if 5 in index:
            assert index[5][number] == sum(value is None for value in page)
        if not index[1][number]:
            _check_bounds(leaf, index[2][number], index[3][number], page)
    if index[4]:
        key = statistics_decoder(leaf)
        lows = [key(low) for low, empty in zip(index[2], index[1], strict=True) if not empty]
        assert lows == sorted(lows, reverse=index[4] == 2)
    return len(pages)
