"""The order of rows by several key columns, computed on 64-bit words that numpy sorts.

Numbers become words of the same order (floats by their bits: -∞, …, -0, 0, …, ∞, and every NaN above, whatever its
sign, as in Iceberg's comparator). Text and other wide values become their rank among the values of the call, by their
bytes. Words are comparable only within one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.parquet.values.key_words import Mask, Words, null_mask

Order = npt.NDArray[np.int64]
_SIGN = np.uint64(1 << 63)
_NAN = np.uint64((1 << 64) - 1)
_FEW_RUNS, _FEW_WORDS = 64, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """Sort direction of one key column."""

    descending: bool = False
    nulls_first: bool = True


def value_words(array: pa.Array) -> Words:
    """One word per value in the values' order; undefined for NULL."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if not len(array):
        return np.zeros(0, dtype=np.uint64)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False)).astype(np.uint64)
    if pa.types.is_floating(kind):
        return _float_words(np.asarray(pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False), dtype=np.float64))
    if pa.types.is_uint64(kind):
        return np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False), dtype=np.uint64)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return _whole_words(array)
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return (
            np.frombuffer(array.buffers()[1], dtype=np.uint64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
            ^ _SIGN
        )
    return _rank_words(array)


def _whole_words(array: pa.Array) -> Words:
    width = array.type.bit_width
    whole = array.view(pa.int32() if width == 32 else pa.int64()) if width in (32, 64) else array.cast(pa.int64())
    values = np.asarray(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)).astype(np.int64)
    return values.view(np.uint64) ^ _SIGN


def _float_words(values: npt.NDArray[np.float64]) -> Words:
    bits = values.view(np.uint64)
    words = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    words[np.isnan(values)] = _NAN
    return words


def _rank_words(array: pa.Array) -> Words:
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = coded.dictionary
    values = values.cast(pa.binary()) if pa.types.is_string(values.type) else values
    ranks = np.zeros(len(values) + 1, dtype=np.uint64)
    order = pc.sort_indices(values)
    ranks[order.to_numpy()] = _dense_ranks(values.take(order))
    return np.asarray(ranks[pc.fill_null(coded.indices, len(values)).to_numpy(zero_copy_only=False)], dtype=np.uint64)


def _dense_ranks(ordered: pa.Array) -> Words:
    """Ranks of sorted values. Dictionaries of other writers may contain a value twice; both have one rank."""
    fresh = np.zeros(len(ordered), dtype=np.uint64)
    fresh[1:] = (
        pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy(zero_copy_only=False)
        if len(ordered)
        else 0
    )
    return np.cumsum(fresh, dtype=np.uint64)


def row_words(columns: Sequence[pa.Array], directions: Sequence[Direction]) -> Words:
    """One word per row: words compare as the rows' keys do, with directions and NULL order."""
    parts = _packed_together(columns, directions)
    return parts[0] if len(parts) == 1 else _dense(parts)


def row_order(columns: Sequence[pa.Array], directions: Sequence[Direction]) -> Order | None:
    """The stable order of rows by their keys; None when they are sorted. Sorted runs are merged."""
    parts = _packed_together(columns, directions)
    if len(parts) == 1:
        return word_order(parts[0])
    order = np.lexsort(parts[::-1])
    return None if bool(np.all(order[1:] > order[:-1])) else order


def word_order(words: Words) -> Order | None:
    """The stable order of words; None when they are sorted. A few sorted runs are merged, other words are radix-sorted
    by their highest bits."""
    runs = 1 + np.count_nonzero(words[1:] < words[:-1])
    if runs == 1:
        return None
    if runs <= _FEW_RUNS or len(words) < _FEW_WORDS:
        return np.argsort(words, kind="stable")
    shift = max(0, int(words.max()).bit_length() - 32)
    halves = (words >> np.uint64(shift)).astype(np.uint32)
    order = _radix_order(halves)
    return order if shift == 0 else _with_ties_sorted(order, words, halves[order])


def _radix_order(halves: npt.NDArray[np.uint32]) -> Order:
    """numpy sorts 16-bit values by counting, much faster than by comparison."""
    order = np.argsort(halves.astype(np.uint16), kind="stable")
    if int(halves.max()) >> 16:
        order = order[np.argsort((halves >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
    return order


def _with_ties_sorted(order: Order, words: Words, halves: npt.NDArray[np.uint32]) -> Order:
    """Sort the rows that share their highest bits by all bits."""
    same = halves[1:] == halves[:-1]
    tied = np.append(same, False)
    tied[1:] |= same
    tied_at = np.flatnonzero(tied)
    if len(tied_at) > len(words) // 4:
        return np.argsort(words, kind="stable")
    rows = order[tied_at]
    order[tied_at] = rows[np.argsort(words[rows], kind="stable")]
    return order


def _packed_together(columns: Sequence[pa.Array], directions: Sequence[Direction]) -> list[Words]:
    """The key columns packed into as few words as possible, most significant first."""
    found: list[tuple[Words, int]] = []
    for column, direction in zip(columns, directions, strict=True):
        words, values = _packed(column, direction)
        if found and found[-1][1] * values <= 1 << 64:
            before, many = found.pop()
            # A column of one value adds nothing, and the number of values beside it may be 2^64, which no word holds.
            words, values = (before * np.uint64(values) + words if many > 1 else words), many * values
        found.append((words, values))
    return [words for words, _ in found]


def _packed(column: pa.Array, direction: Direction) -> tuple[Words, int]:
    """A column's words shifted to start at zero, NULL at its end, and the number of possible values."""
    words = value_words(column)
    nulls: Mask | None = null_mask(column) if column.null_count else None
    known = words if nulls is None else words[~nulls]
    if not len(known):
        return np.zeros(len(words), dtype=np.uint64), 1
    low, high = known.min(), known.max()
    span = int(high) - int(low)
    if nulls is not None and span >= (1 << 64) - 2:
        words = _dense([words])
        known = words[~nulls]
        low, high = known.min(), known.max()
        span = int(high) - int(low)
    words = (high - words) if direction.descending else (words - low)
    if nulls is None:
        return words, span + 1
    if direction.nulls_first:
        words = words + np.uint64(1)
    words[nulls] = np.uint64(0 if direction.nulls_first else span + 1)
    return words, span + 2


def _dense(columns: list[Words]) -> Words:
    """Ranks of rows by several columns of words, most significant first."""
    order = np.lexsort(columns[::-1])
    fresh = np.zeros(len(order), dtype=np.bool_)
    for words in columns:
        ordered = words[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(order), dtype=np.uint64)
    ranks[order] = np.cumsum(fresh).astype(np.uint64)
    return ranks
