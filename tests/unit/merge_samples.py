"""Columns to merge by their pages, and limits so low that small files are merged."""

from __future__ import annotations

import decimal
import math
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from thermocline.parquet.copy import merge_plan

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
def merge_small_pages(rows: int) -> Iterator[None]:
    """Pages are copied however small they are, and row groups end at so many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_plan, "MIN_PAGE_VALUES", 0)
        patch.setattr(merge_plan, "GROUP_ROWS", rows)
        patch.setattr(merge_plan, "LEAST_COPIED", 0.0)
        yield


def make_column(kind: pa.DataType, make: Make, rows: int, chance: random.Random) -> pa.Array:
    nulls = chance.choice((0.0, 0.0, 0.3, 1.0))
    repeated = [make(chance) for _ in range(3)]
    pick = chance.choice((make, lambda chance: chance.choice(repeated)))
    return pa.array([None if chance.random() < nulls else pick(chance) for _ in range(rows)], kind)


def sum_by_duckdb(paths: list[str]) -> tuple[Any, ...]:
    """A sum over all values of all rows."""
    with closing(duckdb.connect()) as conn:
        found = conn.execute("select count(*), sum(hash(t)::hugeint) from read_parquet(?) t", [paths]).fetchone()
        assert found is not None
        return found
