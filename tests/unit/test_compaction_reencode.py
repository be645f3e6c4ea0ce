"""Re-encoding: deletes of every kind, evolved schemas, files of any writer; checked against plain Python."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
import zlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64
from tests.unit.bins import Bin, iceberg_schema, lake_field, local, read_back, read_by_duckdb

from thermocline.errors import LakeInputUnreadable, RewriteUnsupported
from thermocline.parquet.decode import input_reader as reading
from thermocline.parquet.deletes import equality_deletes as equality
from thermocline.parquet.deletes.row_map import map_deleted_rows, removed_positions
from thermocline.parquet.encode import output_writer as writing
from thermocline.parquet.rewrite_task import BinResult, DeleteSource
from thermocline.parquet.values import key_words

SCHEMA = pa.schema(
    [lake_field("id", pa.int64(), 1), lake_field("name", pa.string(), 2), lake_field("x", pa.float64(), 3)]
)
JSON = iceberg_schema((1, "id", "long"), (2, "name", "string"), (3, "x", "double"))
Row = tuple[int | None, str | None, float | None]


def table(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array([row[n] for row in rows], schema.field(n).type) for n in range(len(schema))], schema=schema
    )


def rows_of(result: BinResult) -> list[tuple[Any, ...]]:
    if not result.outputs:
        return []
    found = read_back(result)
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def java_equal(left: Any, right: Any) -> bool:
    """Equality as Iceberg's StructLikeSet has it."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return struct.pack("d", left) == struct.pack("d", right)
    return bool(left == right)


def same_rows(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    return len(left) == len(right) and all(
        all(map(java_equal, one, other)) for one, other in zip(left, right, strict=True)
    )


KEYS = st.one_of(st.none(), st.integers(0, 6), st.sampled_from([-(2**63), 2**63 - 1, -1]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "aa", "a\x00", "ü", "long " * 9]))
FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5]))
ROWS = st.lists(st.tuples(KEYS, TEXTS, FLOATS), max_size=30)
ID_SETS = st.sampled_from([(1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3)])


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    files=st.lists(st.tuples(ROWS, st.integers(1, 4)), min_size=1, max_size=4),
    equals=st.lists(
        st.tuples(ID_SETS, st.lists(st.tuples(KEYS, TEXTS, FLOATS), max_size=8), st.integers(1, 5)), max_size=4
    ),
    places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 29)), max_size=12),
    spelling=st.sampled_from(["file://{}", "file:{}", "{}", "file://localhost{}"]),
    memory=st.sampled_from([402_653_184, 400]),
)
@pytest.mark.conforms("M-077", "M-186")
def test_what_deletes_leave_equals_a_row_by_row_model(
    tmp_path: Path, files: Any, equals: Any, places: Any, spelling: str, memory: int
) -> None:
    lake = Bin(tmp_path, schema=JSON)
    for rows, sequence in files:
        lake.add(table(rows), sequence)
    for ids, keys, sequence in equals:
        schema = pa.schema([SCHEMA.field(number - 1) for number in ids])
        lake.delete_equal(table([tuple(key[number - 1] for number in ids) for key in keys], schema), ids, sequence)
    named = [(file, place) for file, place in places if file < len(files)]
    if named:
        lake.delete_positions(
            [(spelling.format(local(lake.inputs[file].path)), place) for file, place in sorted(named)], 9
        )
    left: list[Row] = []
    removed: list[list[int]] = []
    for number, (rows, sequence) in enumerate(files):
        gone = {place for file, place in named if file == number and place < len(rows)}
        for ids, keys, delete_sequence in equals:
            if delete_sequence > sequence:
                gone |= {
                    place
                    for place, row in enumerate(rows)
                    if any(all(java_equal(row[i - 1], key[i - 1]) for i in ids) for key in keys)
                }
        left += [row for place, row in enumerate(rows) if place not in gone]
        removed.append(sorted(gone))
    result = lake.run("reencode", memory_bytes=memory)
    assert same_rows(rows_of(result), left)
    assert (result.rows_read, result.rows_written) == (sum(len(rows) for rows, _ in files), len(left))
    for number, (rows, _) in enumerate(files):
        maps = [found for found in result.row_maps if found.input_path == lake.inputs[number].path]
        kept = [place for place in range(len(rows)) if place not in removed[number]]
        first = sum(len(files[n][0]) - len(removed[n]) for n in range(number))
        moved = [int(row) for part in map_deleted_rows(maps, np.arange(len(rows))) for row in part.rows]
        assert moved == list(range(first, first + len(kept)))
        if maps:
            assert removed_positions(maps[0]).tolist() == removed[number]


def test_keys_that_share_one_hash_are_told_apart_by_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_words, "_BYTE_WORDS", np.ones(256, dtype=np.uint64))
    lake = Bin(tmp_path, schema=JSON)
    texts = [f"{n:04d}" for n in range(200)]
    lake.add(table([(n, text, None) for n, text in enumerate(texts)]))
    keys = [text for n, text in enumerate(texts) if n % 3 == 0]
    lake.delete_equal(pa.table([[*keys, *keys[:5], "none"]], schema=pa.schema([SCHEMA.field(1)])), [2])
    assert [row[0] for row in rows_of(lake.run("reencode"))] == [n for n in range(200) if n % 3]


def test_keys_of_several_columns_that_share_one_word_are_told_apart_and_null_equals_null_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equality, "combine_words", lambda columns: np.zeros(len(columns[0]), dtype=np.uint64))
    rows: list[Any] = [(number, text, None) for number in (None, 1, 2) for text in (None, "x", "y")]
    keys: list[Any] = [(None, "x"), (1, None), (2, "y")]
    lake = Bin(tmp_path, schema=JSON)
    lake.add(table(rows))
    lake.delete_equal(table(keys, pa.schema([SCHEMA.field(0), SCHEMA.field(1)])), [1, 2])
    assert same_rows(rows_of(lake.run("reencode")), [row for row in rows if row[:2] not in keys])


@pytest.mark.conforms("M-209")
def test_a_bin_whose_rows_are_all_deleted_becomes_no_file(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    lake.add(table([(1, "a", 1.0), (2, "b", 2.0)]))
    lake.delete_equal(table([(1, None, None), (2, None, None)], SCHEMA).select([0]), [1])
    result = lake.run("reencode")
    assert (result.outputs, result.rows_read, result.rows_written, lake.registered) == ((), 2, 0, [])


def test_paths_written_relative_to_the_table_name_the_same_file(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    path = lake.add(table([(1, "a", 1.0), (2, "b", 2.0)]))
    lake.delete_positions([(path.rsplit("/", 1)[1], 0)])
    assert rows_of(lake.run("reencode")) == [(2, "b", 2.0)]


def vector(places: list[int]) -> bytes:
    body = b"\xd1\xd3\x39\x64" + BitMap64(places).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_a_deletion_vector_takes_away_rows_of_its_own_file_alone(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    paths = [lake.add(table([(n, None, None) for n in range(100)])) for _ in range(2)]
    blob = vector([0, 7, 99, 2**40])
    (tmp_path / "v.puffin").write_bytes(b"PFA1" + blob + b"rest")
    lake.deletes.append(
        DeleteSource(
            path=f"file://{tmp_path}/v.puffin",
            kind="vector",
            size_bytes=1,
            sequence_number=5,
            referenced_file=paths[1],
            offset=4,
            length=len(blob),
        )
    )
    ids = [row[0] for row in rows_of(lake.run("reencode"))]
    assert ids == [*range(100), *(n for n in range(100) if n not in (0, 7, 99))]
    lake.deletes[0] = replace(lake.deletes[0], offset=5)
    with pytest.raises(LakeInputUnreadable, match=r"v\.puffin"):
        lake.run("reencode")


@pytest.mark.conforms("M-201")
def test_values_stay_with_their_field_id_when_a_name_is_dropped_and_added_again(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "id", "long"), (5, "name", "string"), (3, "y", "double")))
    lake.add(table([(1, "old", 1.0)]))
    lake.add(
        pa.table(
            [[2], ["new"]], schema=pa.schema([lake_field("id", pa.int64(), 1), lake_field("name", pa.string(), 5)])
        )
    )
    assert rows_of(lake.run()) == [(1, None, 1.0), (2, "new", None)]


@pytest.mark.conforms("M-187")
def test_equality_deletes_on_columns_dropped_or_added_later_are_applied(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "id", "long"), (9, "added", "int")))
    lake.add(table([(1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)]))
    lake.add(
        pa.table(
            [[4, 5], [1, None]], schema=pa.schema([lake_field("id", pa.int64(), 1), lake_field("added", pa.int32(), 9)])
        )
    )
    lake.delete_equal(pa.table([["b"]], schema=pa.schema([lake_field("name", pa.string(), 2)])), [2])
    assert rows_of(lake.run("reencode")) == [(1, None), (3, None), (4, 1), (5, None)]
    lake.delete_equal(
        pa.table([pa.array([None], pa.int32())], schema=pa.schema([lake_field("added", pa.int32(), 9)])), [9]
    )
    assert rows_of(lake.run("reencode")) == [(4, 1)]


@pytest.mark.conforms("M-202")
def test_an_equality_column_nested_or_behind_other_columns_is_found_by_its_field_id(tmp_path: Path) -> None:
    inner = pa.struct([lake_field("code", pa.int32(), 12), lake_field("text", pa.string(), 13)])
    file = pa.schema(
        [
            lake_field("tags", pa.list_(lake_field("element", pa.string(), 20)), 2),
            lake_field("m", pa.map_(lake_field("key", pa.string(), 21, False), lake_field("value", pa.int32(), 22)), 3),
            lake_field("s", inner, 4),
            lake_field("old_name", pa.int32(), 5),
        ]
    )
    rows = [
        (["a", None], [("k", 1)], {"code": 1, "text": "one"}, 10),
        (None, None, {"code": 2, "text": None}, 20),
        ([], [], None, 30),
        (["z"], [("k", None), ("l", 2)], {"code": None, "text": "x"}, 40),
    ]
    struct_json = {
        "type": "struct",
        "fields": [
            {"id": 13, "name": "said", "required": False, "type": "string"},
            {"id": 12, "name": "code", "required": False, "type": "long"},
        ],
    }
    map_json = {"type": "map", "key-id": 21, "key": "string", "value-id": 22, "value": "long", "value-required": False}
    list_json = {"type": "list", "element-id": 20, "element": "string", "element-required": False}
    lake = Bin(
        tmp_path,
        schema=iceberg_schema(
            (5, "new_name", "long"), (4, "s", struct_json), (3, "m", map_json), (2, "tags", list_json)
        ),
    )
    lake.add(
        pa.Table.from_arrays([pa.array([row[n] for row in rows], file.field(n).type) for n in range(4)], schema=file)
    )
    lake.delete_equal(
        pa.Table.from_arrays(
            [pa.array([{"code": 1}, {"code": 77}], pa.struct([inner.field(0)]))],
            schema=pa.schema([lake_field("s", pa.struct([inner.field(0)]), 4)]),
        ),
        [12],
    )
    lake.delete_equal(
        pa.table([pa.array([40, 41], pa.int32())], schema=pa.schema([lake_field("anything", pa.int32(), 5)])), [5]
    )
    result = lake.run("reencode")
    assert rows_of(result) == [(20, {"said": None, "code": 2}, None, None), (30, None, [], [])]
    lake.deletes.clear()
    assert rows_of(lake.run("reencode"))[0] == (10, {"said": "one", "code": 1}, [("k", 1)], ["a", None])
    assert read_by_duckdb(lake.run("reencode"), "select new_name, s.code, m, tags from t where new_name = 40") == [
        (40, None, {"k": None, "l": 2}, ["z"])
    ]


def test_added_columns_have_their_default_and_partition_columns_their_value(tmp_path: Path) -> None:
    day, moment = dt.date(2026, 11, 16), dt.datetime(2026, 11, 16, 1, 2, 3, 400, tzinfo=dt.UTC)
    lake = Bin(
        tmp_path,
        schema=iceberg_schema(
            (1, "id", "long"),
            (10, "day", "date"),
            (11, "at", "timestamptz"),
            (12, "u", "uuid"),
            (13, "d", "decimal(9,2)"),
            (14, "b", "binary"),
            (15, "t", "string"),
            (16, "region", "string"),
            at=moment.isoformat(),
            u="f79c3e09-677c-4bbd-a479-3f349cb785e7",
            d="14.20",
            b="00ff",
            t="x",
        ),
    )
    lake.add(table([(1, "a", 1.0)]))
    result = lake.run("reencode", partition_values={10: "2026-11-16", 16: "eu"})
    [found] = rows_of(result)
    assert found == (
        1,
        day,
        moment,
        uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        Decimal("14.20"),
        b"\x00\xff",
        "x",
        "eu",
    )


@pytest.mark.parametrize(
    ("written", "value", "wanted", "read"),
    [
        (pa.int32(), 7, "long", 7),
        (pa.float32(), 0.5, "double", 0.5),
        (pa.decimal128(9, 2), Decimal("1.25"), "decimal(20,2)", Decimal("1.25")),
        (pa.timestamp("ms"), dt.datetime(2026, 1, 1), "timestamp", dt.datetime(2026, 1, 1)),
        (pa.large_string(), "x", "string", "x"),
        (pa.binary(16), b"0123456789abcdef", "uuid", uuid.UUID(bytes=b"0123456789abcdef")),
        (pa.binary(3), b"abc", "fixed[3]", b"abc"),
        (pa.time64("us"), dt.time(1, 2, 3), "time", dt.time(1, 2, 3)),
    ],
)
def test_types_written_by_others_or_widened_since_become_the_tables(
    tmp_path: Path, written: pa.DataType, value: object, wanted: str, read: object
) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "v", wanted)))
    lake.add(
        pa.table([pa.array([value, None], written)], schema=pa.schema([lake_field("v", written, 1)])), store_schema=True
    )
    assert rows_of(lake.run("reencode")) == [(read,), (None,)]


@pytest.mark.parametrize(
    "how",
    [
        {"use_dictionary": False},
        {
            "use_dictionary": False,
            "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT"},
        },
        {
            "use_dictionary": False,
            "column_encoding": {"id": "BYTE_STREAM_SPLIT", "name": "DELTA_LENGTH_BYTE_ARRAY", "x": "PLAIN"},
        },
        {"data_page_version": "2.0", "compression": "snappy"},
        {"compression": "gzip", "version": "1.0"},
        {"compression": "lz4", "store_schema": True},
        {"compression": "brotli", "row_group_size": 3},
    ],
    ids=["plain", "delta", "split", "pages v2", "gzip", "lz4", "brotli"],
)
def test_files_of_other_writers_are_read(tmp_path: Path, how: dict[str, Any]) -> None:
    lake = Bin(tmp_path, schema=JSON)
    rows: list[Row] = [(n, f"text {n % 3}", n / 2) for n in range(50)]
    lake.add(table(rows[:25]), **how)
    lake.add(table(rows[25:]))
    assert rows_of(lake.run("reencode")) == rows


def test_outputs_carry_field_ids_statistics_page_indexes_and_the_schema(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    lake.add(table([(n, f"text {n % 3}", n / 2) for n in range(1000)]))
    file = pq.ParquetFile(local(lake.run("reencode").outputs[0].path))
    columns = [file.metadata.row_group(0).column(n) for n in range(3)]
    assert [(c.statistics.min, c.statistics.max, c.statistics.null_count) for c in columns[:2]] == [
        (0, 999, 0),
        ("text 0", "text 2", 0),
    ]
    assert not columns[2].is_stats_set  # of floats, in which readers look for NaN
    assert [column.has_column_index for column in columns] == [True, True, False]
    assert all(column.has_offset_index and column.compression == "ZSTD" for column in columns)
    assert [column.has_dictionary_page for column in columns] == [False, True, False]
    assert [field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow] == [b"1", b"2", b"3"]
    assert file.metadata.metadata[b"iceberg.schema"].decode() == JSON


def test_outputs_are_cut_at_the_target_and_moved_rows_are_found_over_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 1000)
    monkeypatch.setattr(reading, "BATCH_ROWS", 600)
    lake = Bin(tmp_path, schema=JSON)
    noise = np.random.default_rng(1)
    numbers = [int(n) for n in noise.integers(0, 2**62, 12_000)]
    for first in range(0, 12_000, 4000):
        lake.add(table([(n, None, float(n)) for n in numbers[first : first + 4000]]), row_group_size=700)
    path = lake.inputs[1].path
    lake.delete_positions([(path, 0), (path, 3999)])
    result = lake.run("reencode", target_bytes=sum(file.size_bytes for file in lake.inputs) // 5)
    assert 4 <= len(result.outputs) <= 6
    assert [row[0] for row in rows_of(result)] == numbers[:4000] + numbers[4001:7999] + numbers[8000:]
    maps = [found for found in result.row_maps if found.input_path == path]
    assert len(maps) > 1
    wanted = [0, 1, 1500, 3000, 3998, 3999]
    outputs = [pq.read_table(local(output.path)).column("id").to_pylist() for output in result.outputs]
    found = [outputs[part.output][row] for part in map_deleted_rows(maps, np.array(wanted)) for row in part.rows]
    assert found == [numbers[4000 + place] for place in wanted[1:-1]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no Parquet file"),
        (b"rubbish" * 100, "no Parquet file"),
        (b"ORC" + bytes(100), "is ORC"),
        (b"Obj\x01" + bytes(100), "is Avro"),
        (b"PFA1" + bytes(100), "is Puffin"),
        (b"PAR1" + bytes(100) + b"PAR1", "cannot be read"),
    ],
    ids=["empty", "rubbish", "orc", "avro", "puffin", "hollow"],
)
@pytest.mark.parametrize("kernel", ["splice", "reencode"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, data: bytes, said: str, kernel: str) -> None:
    lake = Bin(tmp_path, schema=JSON)
    path = tmp_path / "odd.parquet"
    path.write_bytes(data)
    lake.add_file(path, 1)
    with pytest.raises(LakeInputUnreadable, match=rf"odd\.parquet.*{said}|odd\.parquet cannot be read"):
        lake.run(kernel)


def test_what_cannot_be_rewritten_is_named(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "at", "timestamp")))
    lake.add(
        pa.table([[dt.datetime(2026, 1, 1)]], schema=pa.schema([lake_field("at", pa.timestamp("us"), 1)])),
        use_deprecated_int96_timestamps=True,
    )
    with pytest.raises(RewriteUnsupported, match="INT96"):
        lake.run("reencode")
    other = Bin(tmp_path, schema=iceberg_schema((1, "at", "int")))
    other.inputs = lake.inputs
    other.inputs[0] = replace(other.inputs[0], record_count=3)
    with pytest.raises(LakeInputUnreadable, match="holds 1 rows, the table says 3"):
        other.run("reencode")


def test_files_without_field_ids_go_by_the_name_mapping(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    lake.add(pa.table({"old": [1], "x": [2.0]}))
    with pytest.raises(RewriteUnsupported, match="no field ids"):
        lake.run("reencode")
    mapping = '[{"field-id": 1, "names": ["id", "old"]}, {"field-id": 3, "names": ["x"]}]'
    assert rows_of(lake.run("reencode", name_mapping=mapping)) == [(1, None, 2.0)]
