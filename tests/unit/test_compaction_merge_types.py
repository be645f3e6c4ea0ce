"""Merging held against every type, writer and shape of dictionary: the same rows, and statistics that are true of
them."""

from __future__ import annotations

import decimal
import math
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, lake_field, local, read_back
from tests.unit.parquet_truth import check_parquet

from thermocline.parquet.copy import merge_plan
from thermocline.parquet.rewrite_task import InputFile

Make = Callable[[random.Random], Any]


def whole(bits: int, signed: bool = True) -> Make:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    return lambda chance: chance.choice((low, high, 0, -1 if signed else high - 1, chance.randint(low, high)))


def number(digits: int, scale: int) -> Make:
    def make(chance: random.Random) -> decimal.Decimal:
        unscaled = chance.choice(
            (0, -1, 1, 10**digits - 1, 1 - 10**digits, chance.randint(1 - 10**digits, 10**digits - 1))
        )
        return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=50))

    return make


def floating(form: str) -> Make:
    odd = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.5)
    return lambda chance: chance.choice((*odd, struct.unpack(form, struct.pack(form, chance.gauss(0, 100)))[0]))


def text(chance: random.Random) -> str:
    return chance.choice(("", "a", "ab", "ÿ", "日本", "\U0001f600", "z" * 30, str(chance.randrange(50))))


def binary(length: int | None = None) -> Make:
    return lambda chance: chance.randbytes(chance.randrange(6) if length is None else length)


def listed(make: Make) -> Make:
    return lambda chance: [None if chance.random() < 0.2 else make(chance) for _ in range(chance.randrange(4))]


def mapped(chance: random.Random) -> list[tuple[str, int | None]]:
    return [(f"k{n}", chance.choice((None, n, 7))) for n in range(chance.randrange(3))]


def structured(chance: random.Random) -> dict[str, Any]:
    return {"a": chance.choice((None, 1, -5)), "b": chance.choice((None, text(chance)))}


DEEP = pa.list_(pa.struct([pa.field("x", pa.string()), pa.field("y", pa.list_(pa.int32()))]))
KINDS: list[tuple[pa.DataType, Make]] = [
    (pa.bool_(), lambda chance: chance.random() < 0.5),
    (pa.int8(), whole(8)),
    (pa.int32(), whole(32)),
    (pa.int64(), whole(64)),
    (pa.uint16(), whole(16, signed=False)),
    (pa.uint32(), whole(32, signed=False)),
    (pa.uint64(), whole(64, signed=False)),
    (pa.float16(), floating("e")),
    (pa.float32(), floating("f")),
    (pa.float64(), floating("d")),
    (pa.decimal128(9, 2), number(9, 2)),
    (pa.decimal128(18, 4), number(18, 4)),
    (pa.decimal128(38, 10), number(38, 10)),
    (pa.date32(), lambda chance: chance.randint(-30_000, 30_000)),
    (pa.time64("us"), lambda chance: chance.randrange(86_400_000_000)),
    (pa.timestamp("us"), lambda chance: chance.randint(-(10**15), 10**15)),
    (pa.timestamp("us", "UTC"), lambda chance: chance.randint(-(10**15), 10**15)),
    (pa.string(), text),
    (pa.binary(), binary()),
    (pa.binary(5), binary(5)),
    (pa.list_(pa.int64()), listed(whole(64))),
    (pa.list_(pa.string()), listed(text)),
    (pa.map_(pa.string(), pa.int32()), mapped),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), structured),
    (DEEP, listed(lambda chance: {"x": text(chance), "y": listed(whole(32))(chance)})),
]


@contextmanager
def however_small(rows: int) -> Iterator[None]:
    """Pages are copied however small they are, and row groups end at so many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_plan, "MIN_PAGE_VALUES", 0)
        patch.setattr(merge_plan, "GROUP_ROWS", rows)
        patch.setattr(merge_plan, "LEAST_COPIED", 0.0)
        yield


def a_column(kind: pa.DataType, make: Make, rows: int, chance: random.Random) -> pa.Array:
    nulls = chance.choice((0.0, 0.0, 0.3, 1.0))
    repeated = [make(chance) for _ in range(3)]
    pick = chance.choice((make, lambda chance: chance.choice(repeated)))
    return pa.array([None if chance.random() < nulls else pick(chance) for _ in range(rows)], kind)


def a_writer(chance: random.Random) -> dict[str, Any]:
    return {
        "use_dictionary": chance.random() < 0.5,
        "data_page_version": chance.choice(("1.0", "2.0")),
        "write_page_index": chance.random() < 0.8,
        "write_statistics": chance.random() < 0.9,
        "row_group_size": chance.choice((7, 30, 1000)),
        "data_page_size": chance.choice((1, 100, 1 << 20)),
        "write_batch_size": chance.choice((1, 10, 1024)),
        "dictionary_pagesize_limit": chance.choice((20, 1 << 20)),
        "store_decimal_as_integer": True,
    }


def is_readable(file: InputFile) -> bool:
    """Arrow writes some lists over pages of a single value so that it cannot read them."""
    try:
        return bool(pq.read_table(local(file.path)).num_rows == file.record_count)
    except pa.ArrowInvalid:
        return False


def by_duckdb(paths: list[str]) -> tuple[Any, ...]:
    """A sum over all values of all rows."""
    with closing(duckdb.connect()) as conn:
        found = conn.execute("select count(*), sum(hash(t)::hugeint) from read_parquet(?) t", [paths]).fetchone()
        assert found is not None
        return found


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_of_any_type_by_any_writer_are_the_same_after_a_merge_and_nothing_said_of_them_is_untrue(
    seed: int,
) -> None:
    chance = random.Random(seed)
    kinds = chance.sample(KINDS, 3)
    is_copy = chance.random() < 0.1
    schema = pa.schema([lake_field(f"c{n}", kind, n + 1) for n, (kind, _) in enumerate(kinds)])
    same = a_writer(chance) if chance.random() < 0.5 else None
    tables: list[pa.Table] = []
    with TemporaryDirectory() as folder, however_small(chance.choice((20, 60, 1000))):
        lake = Bin(Path(folder))
        for _ in range(chance.randrange(1, 5)):
            rows = chance.randrange(60)
            table = pa.table([a_column(kind, make, rows, chance) for kind, make in kinds], schema=schema)
            tables.append(tables[0] if tables and is_copy else table)
            lake.add(tables[-1], **(same or a_writer(chance)))
        if not any(table.num_rows for table in tables) or not all(map(is_readable, lake.inputs)):
            return
        result = lake.run(splice_min_row_group_bytes=1 << 40, target_bytes=chance.choice((1, 1 << 30)))
        assert result.kernel == "merge", result.note
        for output in result.outputs:
            check_parquet(local(output.path))
        assert list(map(repr, read_back(result).to_pylist())) == [
            repr(row) for table in tables for row in table.to_pylist()
        ]
        inputs = [local(file.path) for file in lake.inputs]
        if pa.float16() not in schema.types:
            assert by_duckdb([local(output.path) for output in result.outputs]) == by_duckdb(inputs)
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        again = pa.concat_tables(
            [pq.read_table(local(output.path), read_dictionary=texts) for output in result.outputs]
        )
        assert again.num_rows == result.rows_written == sum(table.num_rows for table in tables)
