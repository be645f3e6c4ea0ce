"""Values of every type that the gateway prints, from random bits and from the edges, and Postgres' own print of each.

The values reach Postgres in binary, written here with `struct` and not with the gateway's encoders.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pyarrow as pa

_DAY = 86_400_000_000
_TO_2000_DAYS = 10_957
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_031_948
_FIRST_MICROSECOND, _LAST_MICROSECOND = _FIRST_DAY * _DAY, 9_223_371_331_200_000_000 - 1
_TO_2000 = _TO_2000_DAYS * _DAY
_WIDE = Context(prec=80)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A column of values as DuckDB gives it to the gateway, with the binary form of each in Postgres."""

    type_name: str
    type_oid: int
    array_oid: int
    column: pa.Array
    binary: Sequence[bytes | None]


def draw_samples(seed: int, count: int) -> list[Sample]:
    """A sample for each type that is printed."""
    chance = random.Random(seed)
    return [
        *(_floats(chance, count, width) for width in (8, 4)),
        *(
            _numerics(chance, count, precision, scale)
            for precision, scale in ((38, 0), (38, 38), (38, 10), (5, 4), (1, 0))
        ),
        _fixed(chance, count, "date", 1082, 1182, pa.date32(), ">i", _FIRST_DAY, _LAST_DAY, _TO_2000_DAYS),
        _fixed(chance, count, "time", 1083, 1183, pa.time64("us"), ">q", 0, _DAY, 0),
        *(
            _fixed(
                chance,
                count,
                name,
                oid,
                array_oid,
                kind,
                ">q",
                _FIRST_DAY * _DAY,
                _LAST_MICROSECOND,
                _TO_2000_DAYS * _DAY,
            )
            for name, oid, array_oid, kind in (
                ("timestamp", 1114, 1115, pa.timestamp("us")),
                ("timestamptz", 1184, 1185, pa.timestamp("us", "UTC")),
            )
        ),
        *(
            _fixed(chance, count, name, oid, array_oid, kind, code, -(2**bits), 2**bits - 1, 0)
            for name, oid, array_oid, kind, code, bits in (
                ("int2", 21, 1005, pa.int16(), ">h", 15),
                ("int4", 23, 1007, pa.int32(), ">i", 31),
                ("int8", 20, 1016, pa.int64(), ">q", 63),
            )
        ),
        _bytes(chance, count),
        _uuids(chance, count),
        _texts(chance, count),
        _booleans(chance, count),
    ]


def read_printed(conn: psycopg.Connection[Any], sample: Sample) -> tuple[list[bytes | None], list[bytes | None]]:
    """Postgres' text and binary form of each value."""
    header = struct.pack(">iIIii", 1, int(None in sample.binary), sample.type_oid, len(sample.binary), 1)
    if not len(sample.binary):
        header = struct.pack(">iII", 0, 0, sample.type_oid)
    parts = (struct.pack(">i", -1) if one is None else struct.pack(">i", len(one)) + one for one in sample.binary)
    data = header + b"".join(parts)
    forms: list[list[bytes | None]] = []
    for form in (0, 1):
        result = conn.pgconn.exec_params(
            f"select x from unnest($1::{sample.type_name}[]) with ordinality u(x, at) order by at".encode(),
            [data],
            param_types=[sample.array_oid],
            param_formats=[1],
            result_format=form,
        )
        assert result.error_message == b"", result.error_message
        forms.append([result.get_value(row, 0) for row in range(result.ntuples)])
    return forms[0], forms[1]


def _with_nulls(chance: random.Random, values: list[Any]) -> list[Any]:
    return [None if chance.random() < 0.02 else value for value in values]


def _floats(chance: random.Random, count: int, width: int) -> Sample:
    bits, dtype = (64, np.float64) if width == 8 else (32, np.float32)
    raw = np.array([chance.getrandbits(bits) for _ in range(count)], np.uint64 if width == 8 else np.uint32).view(dtype)
    exponents = range(-330, 310) if width == 8 else range(-48, 39)
    with np.errstate(over="ignore"):
        tens = np.array([dtype(f"1e{exponent}") for exponent in exponents], dtype)
        near = [np.nextafter(tens, dtype(end)) for end in (0, np.inf)]
        twos = np.array(
            [np.ldexp(dtype(1), power) for power in (range(-1074, 1024) if width == 8 else range(-149, 128))], dtype
        )
    decimals = np.array([chance.randint(-(10**9), 10**9) / 10 ** chance.randint(0, 12) for _ in range(count)], dtype)
    wholes = np.array([chance.randint(-(10**17), 10**17) // 10 ** chance.randint(0, 16) for _ in range(count)], dtype)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], dtype)
    numbers = np.concatenate([raw, tens, *near, twos, np.negative(twos), decimals, wholes, odd]).astype(dtype)
    values = _with_nulls(chance, list(numbers))
    name, oid, array_oid = ("float8", 701, 1022) if width == 8 else ("float4", 700, 1021)
    column = pa.array(
        numbers, pa.float64() if width == 8 else pa.float32(), mask=np.array([one is None for one in values])
    )
    big = numbers.astype(f">f{width}").tobytes()  # struct would change the bits of a signalling NaN
    binary = [None if one is None else big[at * width : (at + 1) * width] for at, one in enumerate(values)]
    return Sample(type_name=name, type_oid=oid, array_oid=array_oid, column=column, binary=binary)


def _numerics(chance: random.Random, count: int, precision: int, scale: int) -> Sample:
    edges = [0, 1, -1, 10**precision - 1, -(10**precision) + 1, 10**scale if scale < precision else 1]
    wholes = [
        chance.randint(-(10 ** chance.randint(1, precision)) + 1, 10**precision - 1) for _ in range(count)
    ] + edges
    zeros = [10 ** chance.randint(0, precision - 1) * chance.randint(0, 9) % 10**precision for _ in range(count // 4)]
    values = _with_nulls(chance, [Decimal(whole).scaleb(-scale, _WIDE) for whole in wholes + zeros + edges])
    binary = [None if one is None else _numeric_bytes(int(one.scaleb(scale, _WIDE)), scale) for one in values]
    column = pa.array(values, pa.decimal128(precision, scale))
    return Sample(type_name="numeric", type_oid=1700, array_oid=1231, column=column, binary=binary)


def _numeric_bytes(unscaled: int, scale: int) -> bytes:
    """By way of the digits: groups of four to both sides of the point."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, fraction = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    sign = 0x4000 if unscaled < 0 else 0
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight, sign, scale, *groups)


def _fixed(
    chance: random.Random,
    count: int,
    name: str,
    oid: int,
    array_oid: int,
    kind: pa.DataType,
    code: str,
    low: int,
    high: int,
    epoch: int,
) -> Sample:
    """Whole numbers on an axis: integers, days, microseconds."""
    narrow: Callable[[int], int] = lambda value: min(max(value, low), high)  # noqa: E731
    near = [narrow(chance.randint(-(10 ** chance.randint(1, 18)), 10 ** chance.randint(1, 18))) for _ in range(count)]
    spread = [chance.randint(low, high) for _ in range(count)]
    edges = [narrow(value) for value in (low, high, low + 1, high - 1, 0, 1, -1, epoch, 999_999, 1_000_000, 500_000)]
    values = _with_nulls(chance, near + spread + edges)
    column = pa.array(values, pa.int32() if kind == pa.date32() else pa.int16() if code == ">h" else None).cast(kind)
    binary = [None if value is None else struct.pack(code, value - epoch) for value in values]
    return Sample(type_name=name, type_oid=oid, array_oid=array_oid, column=column, binary=binary)


def _bytes(chance: random.Random, count: int) -> Sample:
    values = _with_nulls(chance, [chance.randbytes(chance.choice((0, 1, 2, 16, 300))) for _ in range(count)])
    return Sample(type_name="bytea", type_oid=17, array_oid=1001, column=pa.array(values, pa.binary()), binary=values)


def _uuids(chance: random.Random, count: int) -> Sample:
    raw = _with_nulls(chance, [chance.randbytes(16) for _ in range(count)])
    column = pa.array([None if one is None else str(UUID(bytes=one)) for one in raw], pa.string())
    return Sample(type_name="uuid", type_oid=2950, array_oid=2951, column=column, binary=raw)


def _texts(chance: random.Random, count: int) -> Sample:
    letters = ["a", "Z", " ", "\n", "\t", "\\", "'", '"', "ä", "日", "🙂", "\x01", "\x7f", "\u0301", "\u200b", "{", ","]
    values = [
        None if chance.random() < 0.02 else "".join(chance.choice(letters) for _ in range(chance.randint(0, 20)))
        for _ in range(count)
    ]
    binary = [None if one is None else one.encode() for one in values]
    return Sample(type_name="text", type_oid=25, array_oid=1009, column=pa.array(values, pa.string()), binary=binary)


def _booleans(chance: random.Random, count: int) -> Sample:
    values = [chance.choice((True, False, None)) for _ in range(count)]
    binary = [None if one is None else bytes([one]) for one in values]
    return Sample(type_name="bool", type_oid=16, array_oid=1000, column=pa.array(values, pa.bool_()), binary=binary)
