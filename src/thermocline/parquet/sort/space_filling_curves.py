"""Space-filling curves: several columns in one order, by z-order or Hilbert curve.

Each column's values become ranks by their share of the bin's rows, so that every column gets its share of bits whatever
its distribution; NULL ranks below all values. Ranks come from one sample of the bin, so they hold for all of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.parquet.sort.row_order import value_words
from thermocline.parquet.values.key_words import Words, null_mask

_MOST_VALUES = 1 << 13
"""Values kept of each column's sample: few enough to fit into the cache, and far more than there are row groups."""
_SPREAD = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnRanks:
    """Every n-th value (`step`) of a sorted sample of one column, as words or as text, and the number of NULLs."""

    words: Words | None
    texts: pa.Array
    """None where there are words."""
    step: int
    nulls: int
    total: int

    def ranks(self, array: pa.Array, bits: int) -> Words:
        """Each value's share of the rows below it, scaled to this many bits; NULL is zero."""
        below = self._count_below(array)
        known = len(self.words) if self.words is not None else len(self.texts)
        shares = (np.arange(known + 1, dtype=np.uint64) * np.uint64(self.step) + np.uint64(self.nulls)) * np.uint64(
            1 << bits
        )
        most = np.uint64((1 << bits) - 2)
        ranks: Words = (np.uint64(1) + np.minimum(most, shares // np.uint64(max(1, self.total))))[below]
        if array.null_count:
            ranks[null_mask(array)] = 0
        return ranks

    def _count_below(self, array: pa.Array) -> npt.NDArray[np.int64]:
        """How many of the kept values are below each value."""
        if self.words is not None:
            return np.searchsorted(self.words, value_words(_plain(array)))
        coded = array if pa.types.is_dictionary(array.type) else _plain(array).dictionary_encode()
        found = np.zeros(len(coded.dictionary) + 1, dtype=np.int64)
        found[:-1] = pc.search_sorted(self.texts, _plain(coded.dictionary)).to_numpy(zero_copy_only=False)
        return np.asarray(
            found[pc.fill_null(coded.indices, len(coded.dictionary)).to_numpy(zero_copy_only=False)], dtype=np.int64
        )


def column_ranks(sample: pa.ChunkedArray) -> ColumnRanks:
    """Ranks from a sample of a column's rows."""
    array = sample.combine_chunks()
    array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    known = _plain(array.drop_null())
    step = max(1, -(-len(known) // _MOST_VALUES))
    words = texts = None
    if pa.types.is_binary(known.type):
        texts = known.take(pc.sort_indices(known)[step - 1 :: step])
    else:
        words = np.sort(value_words(known))[step - 1 :: step].copy()
    return ColumnRanks(words=words, texts=texts, step=step, nulls=array.null_count, total=len(array))


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_string(array.type) or pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    if pa.types.is_decimal(array.type) and array.type.precision > 18:
        # Adjacent values may share a rank, which makes the order slightly coarser.
        return array.cast(pa.float64())
    return array


def bits_for(columns: int) -> int:
    """Bits of each column in a key of 64 bits, or of 128 bits for more than four columns."""
    return min(32, (64 if columns <= 4 else 128) // columns)


def z_order(ranks: Sequence[Words], bits: int) -> list[Words]:
    """The interleaved bits of the ranks, the first column's highest bit first: one word, or two for long keys."""
    if len(ranks) == 1:
        return [ranks[0]]
    if len(ranks) == 2:
        return [_interleave_zeros(ranks[0]) << np.uint64(1) | _interleave_zeros(ranks[1])]
    return _interleave(ranks, bits)


def _interleave_zeros(values: Words) -> Words:
    """The low 32 bits, with a zero bit after each."""
    for shift, mask in _SPREAD:
        values = (values | (values << np.uint64(shift))) & np.uint64(mask)
    return values


def _interleave(ranks: Sequence[Words], bits: int) -> list[Words]:
    length = len(ranks) * bits
    words = [np.zeros(len(ranks[0]), dtype=np.uint64) for _ in range((length + 63) // 64)]
    position = length
    for bit in range(bits - 1, -1, -1):
        for values in ranks:
            position -= 1
            word = words[len(words) - 1 - position // 64]
            word |= ((values >> np.uint64(bit)) & np.uint64(1)) << np.uint64(position % 64)
    return words


def hilbert(ranks: Sequence[Words], bits: int) -> list[Words]:
    """Positions on the Hilbert curve, by Skilling's transform of the ranks, for all rows at once."""
    axes = [values.copy() for values in ranks]
    one = np.uint64(1)
    for bit in range(bits - 1, 0, -1):
        here, below = np.uint64(bit), (one << np.uint64(bit)) - one
        for number, axis in enumerate(axes):
            inverted = (axis >> here) & one == one
            if number == 0:
                axes[0] = np.where(inverted, axes[0] ^ below, axes[0])
                continue
            swapped = (axes[0] ^ axis) & below
            axes[number] = np.where(inverted, axis, axis ^ swapped)
            axes[0] = np.where(inverted, axes[0] ^ below, axes[0] ^ swapped)
    for number in range(1, len(axes)):
        axes[number] = axes[number] ^ axes[number - 1]
    flips = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in range(bits - 1, 0, -1):
        flips = np.where((axes[-1] >> np.uint64(bit)) & one == one, flips ^ ((one << np.uint64(bit)) - one), flips)
    return _interleave([axis ^ flips for axis in axes], bits)
