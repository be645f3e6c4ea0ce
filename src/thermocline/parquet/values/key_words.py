"""Values of key columns as 64-bit words that numpy compares: equal keys have equal words, by Iceberg's equality.

Java's rules hold: NULL equals NULL, every NaN equals every other, -0.0 differs from 0.0. Values wider than 64 bits have
a hash as their word, so the caller compares the values of equal words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
_NULL_WORD = np.uint64(0x9E3779B97F4A7C15)
_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_PIECE_BYTES = 1 << 21
_BYTE_WORDS: Words = np.random.default_rng(20_261_116).integers(1, 2**64, 256, dtype=np.uint64, endpoint=False)


def is_exact(kind: pa.DataType) -> bool:
    """Whether a value's word is the value itself."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= 18)
    return bool(pa.types.is_boolean(kind) or (pa.types.is_primitive(kind) and kind.bit_width <= 64))


def null_mask(array: pa.Array) -> Mask:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def exact_words(array: pa.Array) -> Words:
    """One word per value of a type that fits into 64 bits; zero for NULL."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False)).astype(np.uint64)
    if pa.types.is_decimal(kind):
        return _filled(_decimal_words(array), array)
    if pa.types.is_floating(kind):
        return _float_words(array)
    whole = (
        array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        if kind.bit_width in (32, 64)
        else array.cast(pa.int64())
    )
    return np.asarray(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)).astype(np.int64).view(np.uint64)


def _float_words(array: pa.Array) -> Words:
    values = np.array(pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False), dtype=np.float64)
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def _decimal_words(array: pa.Array) -> Words:
    """The low half of each 128-bit value, which holds up to 18 digits completely."""
    data = np.frombuffer(array.buffers()[1], dtype=np.uint64) if len(array) else np.zeros(0, dtype=np.uint64)
    return data[2 * array.offset : 2 * (array.offset + len(array)) : 2].copy()


def _filled(words: Words, array: pa.Array) -> Words:
    if array.null_count:
        words[null_mask(array)] = 0
    return words


def hash_words(array: pa.Array) -> Words:
    """One hashed word per value; all NULLs share one word."""
    words = mix_words(exact_words(array)) if is_exact(array.type) else mix_words(_hashed(array))
    if array.null_count:
        words[null_mask(array)] = _NULL_WORD
    return words


def mix_words(words: Words) -> Words:
    """A bijection of 64-bit words in which every input bit affects every output bit."""
    with np.errstate(over="ignore"):
        words = words ^ (words >> np.uint64(32))
        words = words * _FACTOR
        words = words ^ (words >> np.uint64(32))
        words = words * _FACTOR
        return np.asarray(words ^ (words >> np.uint64(32)), dtype=np.uint64)


def combine_words(columns: list[Words]) -> Words:
    """One word for several."""
    total = columns[0].copy()
    with np.errstate(over="ignore"):
        for words in columns[1:]:
            total = mix_words(total * np.uint64(31) + words)
    return total


def as_bytes(array: pa.Array) -> pa.Array:
    """Text, binary, fixed, uuid and wide decimals as plain binary."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_decimal(array.type):
        array = array.view(pa.binary(16))
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _hashed(array: pa.Array) -> Words:
    data = as_bytes(array)
    offsets = np.frombuffer(data.buffers()[1], dtype=np.int32)[data.offset : data.offset + len(data) + 1].astype(
        np.int64
    )
    if not len(data) or data.buffers()[2] is None or offsets[-1] == offsets[0]:
        return np.zeros(len(data), dtype=np.uint64)
    content = np.frombuffer(data.buffers()[2], dtype=np.uint8)
    found = np.empty(len(data), dtype=np.uint64)
    begin = 0
    while begin < len(data):
        end = int(np.searchsorted(offsets, offsets[begin] + _PIECE_BYTES, side="right")) - 1
        end = min(len(data), max(end, begin + 1))
        found[begin:end] = _hash_piece(content, offsets[begin : end + 1])
        begin = end
    return found


def _hash_piece(content: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Words:
    """A polynomial hash: each byte through a table, times a power of its position, summed per value; the length is
    mixed in."""
    lengths = np.diff(offsets)
    data = _BYTE_WORDS[content[offsets[0] : offsets[-1]]]
    longest = int(lengths.max(initial=0))
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(max(1, longest), _FACTOR, dtype=np.uint64))
        positions = np.arange(len(data)) - np.repeat(offsets[:-1] - offsets[0], lengths)
        data *= powers[positions]
        filled = lengths > 0
        sums = np.zeros(len(lengths), dtype=np.uint64)
        if len(data):
            sums[filled] = np.add.reduceat(data, (offsets[:-1] - offsets[0])[filled])
        return np.asarray(sums + lengths.astype(np.uint64), dtype=np.uint64)
