"""A checksum per column and one of whole rows, for all types, independent of row order.

Each value becomes a 64-bit number: fixed-width values by their bits, mixed; text and bytes by the hash that tiering
uses; lists by elements and positions; maps by their entries in any order; structs by their fields. Sums modulo 2^64 do
not depend on order and need no memory. The row checksum mixes a row's columns before it is summed, so a value that
moves to another row changes it. NaN is one value; 0.0 and -0.0 are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thermocline.parquet.values.postgres_hash import U64
from thermocline.parquet.values.row_checksum import binary_hashes, mix_hashes

_NULL, _STEP, _LENGTH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03), np.uint64(0x8CB92BA72F3D8DD7)
_WRAP = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSums:
    """The number of rows, a sum for each column, and one of whole rows."""

    rows: int
    columns: tuple[int, ...]
    whole: int

    def __add__(self, other: ColumnSums) -> ColumnSums:
        columns = tuple((one + another) % _WRAP for one, another in zip(self.columns, other.columns, strict=True))
        return ColumnSums(rows=self.rows + other.rows, columns=columns, whole=(self.whole + other.whole) % _WRAP)

    def differing(self, other: ColumnSums, names: Sequence[str]) -> list[str]:
        """The columns whose sums differ."""
        return [name for name, one, another in zip(names, self.columns, other.columns, strict=True) if one != another]


def no_rows(columns: int) -> ColumnSums:
    return ColumnSums(rows=0, columns=(0,) * columns, whole=0)


def sum_columns(batch: pa.RecordBatch) -> ColumnSums:
    """The sums of a batch in the table's schema."""
    whole = np.zeros(batch.num_rows, dtype=np.uint64)
    sums = []
    for at, array in enumerate(batch.columns):
        hashed = mix_hashes(_hash(array) + _salt(at))
        sums.append(int(hashed.sum(dtype=np.uint64)))
        whole += hashed
    return ColumnSums(rows=batch.num_rows, columns=tuple(sums), whole=int(mix_hashes(whole).sum(dtype=np.uint64)))


def _hash(array: pa.Array) -> U64:
    """A number for each value; NULL has its own."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    hashed = _hash_values(array)
    if array.null_count:
        hashed[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashed


def _hash_values(array: pa.Array) -> U64:
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [mix_hashes(_hash(array.field(at)) + _salt(at)) for at in range(kind.num_fields)]
        return mix_hashes(np.sum(parts, axis=0, dtype=np.uint64)) if parts else np.zeros(len(array), dtype=np.uint64)
    if pa.types.is_map(kind):
        offsets = _offsets(array)
        keys, values = (_hash(child.slice(offsets[0], offsets[-1] - offsets[0])) for child in (array.keys, array.items))
        return _sum_segments(mix_hashes(mix_hashes(keys) + values * _STEP), offsets - offsets[0])
    if pa.types.is_list(kind):
        offsets = _offsets(array)
        values = _hash(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
        near = offsets - offsets[0]
        positions = np.arange(len(values), dtype=np.int64) - np.repeat(near[:-1], np.diff(near))
        return _sum_segments(mix_hashes(values + positions.astype(np.uint64) * _STEP), near)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return binary_hashes(array)
    if pa.types.is_boolean(kind):
        return mix_hashes(np.asarray(array.cast(pa.uint8()).fill_null(0)).astype(np.uint64))
    return _hash_words(array)


def _hash_words(array: pa.Array) -> U64:
    """Hash values of a fixed width by their bits."""
    kind = array.type
    if pa.types.is_floating(kind):
        width, bits = (np.float32, np.uint32) if kind.bit_width == 32 else (np.float64, np.uint64)
        values = (
            np.frombuffer(array.buffers()[1], dtype=width)[array.offset : array.offset + len(array)]
            if len(array)
            else np.zeros(0, width)
        )
        return mix_hashes(np.where(np.isnan(values), width(np.nan), values).view(bits).astype(np.uint64))
    size = kind.byte_width if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind) else kind.bit_width // 8
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8) if len(array) else np.zeros(0, dtype=np.uint8)
    raw = raw[array.offset * size : (array.offset + len(array)) * size].reshape(len(array), size)
    words = np.zeros((len(array), -(-size // 8) * 8), dtype=np.uint8)
    words[:, :size] = raw
    hashed = np.zeros(len(array), dtype=np.uint64)
    for word in words.view(np.uint64).T:
        hashed = mix_hashes(hashed * _STEP + word)
    return hashed


def _salt(position: int) -> np.uint64:
    """The number that distinguishes a column, or a field, from the others."""
    return np.uint64((position + 1) * int(_STEP) % _WRAP)


def _offsets(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(array.offsets).astype(np.int64) if len(array) else np.zeros(1, dtype=np.int64)


def _sum_segments(values: U64, offsets: npt.NDArray[np.int64]) -> U64:
    """The sum of each segment, with its length."""
    before = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(values, dtype=np.uint64)))
    return mix_hashes(before[offsets[1:]] - before[offsets[:-1]] + np.diff(offsets).astype(np.uint64) * _LENGTH)
