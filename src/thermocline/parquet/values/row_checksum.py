"""An order-independent checksum of whole rows, equal for Postgres and for the finished Parquet file.

Postgres hashes each value in the scan that copies it, with its own hash function and the column's position as the seed,
and combines a row's hashes by exclusive or (`select_list.py` renders the expression). The lake side decodes the file it
wrote and computes the same here. A row's hash passes a non-linear mixer before it is summed modulo 2^64: without it,
two rows that swap a value would keep the sum.

Long texts are hashed by their SHA-256 on both sides, because lookup3 over a long value does not vectorise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.core.columns import LakeColumn
from thermocline.core.types import LakeType, lake_type_named
from thermocline.parquet.values.arrow_types import travels_whole
from thermocline.parquet.values.postgres_hash import U8, U64, hash_fixed, hash_int64, hash_uint32, hash_variable

HASH_VERSION = 1
"""Raised with every change of the row hash. Stored checksums carry it, and only those of one version are compared."""
LONG_BYTES = 192
SLICE_ROWS = 32_768
_SPARE_BYTES = LONG_BYTES + 12
_MAX_PLAIN_SCALE = 6
_INT64: np.dtype[Any] = np.dtype(np.int64)
_WRAP = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSum:
    """The number of rows, and the sum of their mixed hashes modulo 2^64."""

    rows: int = 0
    total: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(rows=self.rows + other.rows, total=(self.total + other.total) % _WRAP)


def sum_hashes(row_hashes: npt.NDArray[Any]) -> RowSum:
    """The checksum of rows whose hashes are given."""
    mixed = mix_hashes(row_hashes.view(np.uint64))
    return RowSum(rows=len(mixed), total=int(mixed.sum(dtype=np.uint64)))


def sum_table_rows(table: pa.Table, columns: tuple[LakeColumn, ...]) -> RowSum:
    """The checksum of decoded lake rows; `table` has the columns in this order."""
    return sum((sum_hashes(hashes) for hashes in _hash_slices(table, columns)), RowSum())


def hash_table(table: pa.Table, columns: tuple[LakeColumn, ...]) -> U64:
    """The hash of each decoded lake row; `table` has the columns in this order."""
    slices = list(_hash_slices(table, columns))
    return np.concatenate(slices) if slices else np.zeros(0, dtype=np.uint64)


def _hash_slices(table: pa.Table, columns: tuple[LakeColumn, ...]) -> Iterator[U64]:
    arrays = [_prepared(table.column(position).combine_chunks(), column) for position, column in enumerate(columns)]
    for start in range(0, table.num_rows, SLICE_ROWS):
        yield _hash_rows([array.slice(start, SLICE_ROWS) for array in arrays], columns)


def mix_hashes(values: U64) -> U64:
    """Mix each number so that sums are not linear in the numbers."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _hash_rows(arrays: list[pa.Array], columns: tuple[LakeColumn, ...]) -> U64:
    result = np.zeros(len(arrays[0]), dtype=np.uint64)
    for position, (array, column) in enumerate(zip(arrays, columns, strict=True)):
        result ^= hash_column(array, column, seed_of(position))
    return result


def seed_of(position: int) -> int:
    """The seed of a column's hashes: columns that swap their values must not keep a row's hash."""
    return position + 1


def hash_column(array: pa.Array, column: LakeColumn, seed: int) -> U64:
    """The hash of each value as Postgres computes it; NULL is 0."""
    if pa.types.is_dictionary(array.type):
        hashed = hash_column(array.dictionary, column, seed)
        indices = array.indices.fill_null(0) if array.null_count else array.indices
        taken = (
            hashed[_fixed_width(indices, np.dtype(np.int32))] if len(hashed) else np.zeros(len(array), dtype=np.uint64)
        )
    else:
        taken = _hash_values(array, lake_type_named(column.lake_type), seed)
    if array.null_count:
        taken[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return taken


def _prepared(array: pa.Array, column: LakeColumn) -> pa.Array:
    """Conversions that are cheaper once per column than once per slice."""
    match lake_type_named(column.lake_type).storage:
        case "decimal":
            return array if travels_whole(column.lake_type) else decimal_text(array)
        case "boolean":
            return array.cast(pa.uint8())
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _hash_values(array: pa.Array, declared: LakeType, seed: int) -> U64:
    """The hashes that `hash_function` of the declaration gives in Postgres."""
    match declared.storage:
        case "boolean":
            return hash_uint32(_fixed_width(array, np.dtype(np.uint8)).astype(np.uint32), seed)
        case "int4":
            numbers = _fixed_width(array, np.dtype(np.int32))
            epoch = np.int32(declared.postgres_epoch)
            return hash_uint32((numbers - epoch if epoch else numbers).view(np.uint32), seed)
        case "int8":
            numbers = _fixed_width(array, _INT64)
            offset = np.int64(declared.postgres_epoch)
            return hash_int64(numbers - offset if offset else numbers, seed)
        case "float4":
            return _hash_doubles(_fixed_width(array, np.dtype(np.float32)).astype(np.float64), seed)
        case "float8":
            return _hash_doubles(_fixed_width(array, np.dtype(np.float64)), seed)
        case "uuid":
            return hash_fixed(
                _bytes(array.buffers()[1])[array.offset * 16 : (array.offset + len(array)) * 16], 16, seed
            )
        case "bytes":
            return _hash_bytes(array, _digest, seed)
        case "decimal" if pa.types.is_decimal(array.type):
            return hash_int64(_whole_numbers(array), seed)
        case "decimal" | "text":
            return _hash_bytes(array, _hex_digest, seed)


def _hash_doubles(values: npt.NDArray[np.float64], seed: int) -> U64:
    canonical = np.where(np.isnan(values), np.nan, values)
    hashed = hash_fixed(canonical.view(np.uint8), 8, seed)
    hashed[values == 0] = seed
    return hashed


def _hash_bytes(array: pa.Array, digest: Any, seed: int) -> U64:
    if len(array) == 0:
        return np.zeros(0, dtype=np.uint64)
    width = np.dtype(
        np.int64 if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type) else np.int32
    )
    offsets = np.frombuffer(array.buffers()[1], dtype=width)[array.offset : array.offset + len(array) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + _SPARE_BYTES, dtype=np.uint8)
    if last > first:
        data[: last - first] = _bytes(array.buffers()[2])[first:last]
    near = offsets - offsets[0]
    long = np.flatnonzero(np.diff(near) > LONG_BYTES)
    if not len(long):
        return hash_variable(data, near, seed)
    # Long values are hashed by their digest elsewhere; here they count as empty.
    digests = [digest(data[near[row] : near[row + 1]].tobytes()) for row in long]
    hashed = _hash_short(data, near, long, seed)
    hashed[long] = _hash_bytes(pa.array(digests, pa.binary()), digest, seed)
    return hashed


def binary_hashes(array: pa.Array) -> U64:
    """The hash of each text or byte string; undefined for NULL."""
    return _hash_bytes(array, _digest, 0)


def _hash_short(data: U8, offsets: npt.NDArray[Any], long: npt.NDArray[np.intp], seed: int) -> U64:
    keep = np.ones(len(offsets) - 1, dtype=bool)
    keep[long] = False
    rows = np.flatnonzero(keep)
    lengths = np.diff(offsets)[rows]
    packed_offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    bytes_kept = np.repeat(keep, np.diff(offsets))
    packed = np.zeros(int(packed_offsets[-1]) + _SPARE_BYTES, dtype=np.uint8)
    packed[: int(packed_offsets[-1])] = data[: int(offsets[-1])][bytes_kept]
    hashed = np.zeros(len(keep), dtype=np.uint64)
    hashed[rows] = hash_variable(packed, packed_offsets, seed)
    return hashed


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _hex_digest(value: bytes) -> bytes:
    return hashlib.sha256(value).hexdigest().encode()


def decimal_text(array: pa.Array) -> pa.Array:
    """Decimals as Postgres prints them: every digit of the scale, never an exponent."""
    scale = array.type.scale
    if scale <= _MAX_PLAIN_SCALE:
        return array.cast(pa.string())
    # Arrow writes small values with an exponent; the unscaled integer never has one, so the point is put in by hand.
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), offset=array.offset).cast(
        pa.string()
    )
    negative = pc.starts_with(whole, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(whole, "-"), scale + 1, "0")
    sign = pc.if_else(negative, pa.scalar("-"), pa.scalar(""))
    head = pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(digits, 0, -scale), "")
    return pc.binary_join_element_wise(head, pc.utf8_slice_codeunits(digits, -scale), ".")


def _whole_numbers(array: pa.Array) -> npt.NDArray[np.int64]:
    """Small decimals as unscaled integers: the low half of each 128-bit number."""
    return _fixed_width(
        pa.Array.from_buffers(pa.int64(), 2 * len(array), [None, array.buffers()[1]], offset=2 * array.offset), _INT64
    )[::2]


def _fixed_width(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return (
        np.frombuffer(array.buffers()[1], dtype=dtype)[array.offset : array.offset + len(array)]
        if len(array)
        else np.zeros(0, dtype)
    )


def _bytes(buffer: pa.Buffer | None) -> U8:
    return np.frombuffer(buffer, dtype=np.uint8) if buffer is not None and buffer.size else np.zeros(0, dtype=np.uint8)
