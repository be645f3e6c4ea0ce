"""Row groups that look alike are read by a pattern; what it gives is what a walk through every field gives, or
nothing."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, lake_field, local, read_back
from tests.unit.check_parquet import check_parquet

from thermocline.parquet.byte_files import FileSource
from thermocline.parquet.footer import footer as footers
from thermocline.parquet.footer.footer import Footer, FooterPatterns, read_footer
from thermocline.parquet.footer.row_group_bytes import RowGroup
from thermocline.parquet.footer.row_group_pattern import learn_pattern
from thermocline.parquet.thrift import compact_protocol as thrift

SCHEMA = pa.schema(
    [
        lake_field("id", pa.int64(), 1, False),
        lake_field("name", pa.string(), 2),
        lake_field("tags", pa.list_(pa.int32()), 3),
    ]
)
WRITERS: list[dict[str, Any]] = [
    {},
    {"write_page_index": True, "data_page_size": 64, "write_batch_size": 4},
    {"use_dictionary": False, "data_page_version": "2.0", "compression": "none"},
    {"write_page_index": True, "bloom_filter_options": {"id": {"ndv": 50}}},
    {"write_statistics": False},
]


def rows(first: int, count: int, text: str = "row") -> pa.Table:
    ids = range(first, first + count)
    names = [None if i % 5 == 0 else f"{text} {i * 7}" for i in ids]
    return pa.table([list(ids), names, [[i] * (i % 3) for i in ids]], schema=SCHEMA)


def _read(paths: list[Path], patterns: FooterPatterns | None) -> list[Footer]:
    found = []
    for path in paths:
        with FileSource(f"file://{path}", lambda _read, _written: None) as source:
            found.append(read_footer(source, patterns))
    return found


def _write(tmp_path: Path, tables: list[pa.Table], how: dict[str, Any]) -> list[Path]:
    paths = [tmp_path / f"{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pq.write_table(table, path, **{"compression": "zstd", **how})
    return paths


@pytest.mark.parametrize(
    "how", WRITERS, ids=["usual", "page index", "plain, pages v2", "bloom filter", "no statistics"]
)
def test_a_pattern_gives_what_the_walk_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    monkeypatch.setattr(footers, "_LEARN_AFTER", 1)
    tables = [rows(number * 10**k, 10 + number % 3) for k in (1, 3, 7) for number in range(1, 8)]
    paths = _write(tmp_path, tables, how)
    patterns = FooterPatterns(files=1000)
    assert _read(paths, patterns) == _read(paths, None)
    assert patterns.groups
    assert patterns.unmatched < len(paths) / 2, "the pattern fitted too few to be of use"


def test_files_of_another_shape_are_walked_through_and_teach_their_own_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "_LEARN_AFTER", 1)
    paths = []
    for at, how in enumerate(WRITERS):
        (folder := tmp_path / str(at)).mkdir()
        paths += _write(folder, [rows(100 * number, 20) for number in range(1, 5)], how)
    mixed = paths[::2] + paths[1::2]
    patterns = FooterPatterns(files=1000)
    assert _read(mixed, patterns) == _read(mixed, None)
    assert 1 < len(patterns.groups) <= footers._MOST_PATTERNS


def test_texts_longer_than_any_pattern_are_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footers, "_LEARN_AFTER", 1)
    paths = _write(tmp_path, [rows(1, 5), rows(1, 5, "x" * 40), rows(1, 5, "x" * 300), rows(9, 5)], {})
    assert _read(paths, FooterPatterns(files=1000)) == _read(paths, None)


def test_some_hundred_small_files_are_spliced_by_what_one_of_them_taught(tmp_path: Path) -> None:
    lake = Bin(tmp_path)
    for number in range(footers._WORTH_FILES):
        lake.add(rows(number * 3, 3), write_page_index=True)
    result = lake.run()
    assert result.kernel == "splice"
    assert read_back(result).equals(rows(0, 3 * footers._WORTH_FILES))
    check_parquet(local(result.outputs[0].path))


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_damaged_row_groups_end_as_they_do_without_a_pattern(data: st.DataObject) -> None:
    """Whatever a byte is changed to, pattern and walk give the same row group or fail both."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows(1000, 12), sink, compression="zstd", write_page_index=True)
    whole = sink.getvalue().to_pybytes()
    size = struct.unpack("<I", whole[-8:-4])[0]
    footer = whole[-8 - size : -8]
    start = footer.index(SCHEMA.names[-1].encode())  # behind the schema, where row groups begin
    at = data.draw(st.integers(start, len(footer) - 1))
    changed = footer[:at] + bytes([data.draw(st.integers(0, 255))]) + footer[at + 1 :]
    begin = _first_group(footer)
    learnt = learn_pattern(footer, begin)
    assert learnt is not None
    fits = learnt.pattern.match(changed, begin)
    by_pattern: RowGroup | str = "none"
    if fits is not None:
        try:
            by_pattern = learnt.cut(fits, changed, begin)
        except IndexError:
            by_pattern = "damaged"
    try:
        walked: RowGroup | str = footers._read_group(changed, begin)[0]
    except (IndexError, ValueError, RecursionError):
        walked = "damaged"
    assert by_pattern in ("none", walked)


def _first_group(footer: bytes) -> int:
    """Where the first row group begins: behind version, schema, number of rows and the list's head."""
    at = thrift.skip(footer, thrift.skip(footer, 1, thrift.I32) + 1, thrift.LIST)
    at = thrift.skip(footer, at + 1, thrift.I64)
    return thrift.read_list_header(footer, at + 1)[2]
