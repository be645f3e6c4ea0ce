"""Ranges of sort keys: keys that split all rows into parts, and the part of each row.

The split keys come from a sample. A wrong sample makes ranges uneven, never unordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.parquet.sort.row_order import Direction, row_words, value_words
from thermocline.parquet.values.key_words import as_bytes, is_exact, null_mask

Numbers = npt.NDArray[np.uint16]
Slots = npt.NDArray[np.int64]
_MOST_RANGES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyRanges:
    """`cuts` are the first keys of all ranges but the first, in order, column by column."""

    cuts: tuple[pa.Array, ...]
    directions: tuple[Direction, ...]

    def __len__(self) -> int:
        return len(self.cuts[0]) + 1

    def numbers(self, columns: Sequence[pa.Array]) -> Numbers:
        """The range of each row. In each column a row lies between two cuts or on one; the next column decides among
        those it lies on."""
        if len(self) == 1:
            return np.zeros(len(columns[0]), dtype=np.uint16)
        rows = np.zeros(len(columns[0]), dtype=np.int64)
        cuts = np.zeros(len(self.cuts[0]), dtype=np.int64)
        last = len(columns) - 1
        for at, (column, values, direction) in enumerate(zip(columns, self.cuts, self.directions, strict=True)):
            ours, theirs, many = _slots_of(column, values, direction, at == last)
            if at:
                ours, theirs = rows * many + ours, cuts * many + theirs
            if at == last:
                break
            known = np.unique(theirs)
            rows, cuts = _between(known, ours), _between(known, theirs)
        if last == 0:
            return np.searchsorted(theirs, np.arange(many), side="right").astype(np.uint16)[ours]
        return np.searchsorted(theirs, ours, side="right").astype(np.uint16)


def plan_ranges(sample: Sequence[Sequence[pa.Array]], directions: Sequence[Direction], count: int) -> KeyRanges:
    """Ranges of about even size by the sample's key columns; fewer than `count` when the sample has fewer keys."""
    if not sample or count <= 1:
        return KeyRanges(cuts=tuple(pa.nulls(0) for _ in directions), directions=tuple(directions))
    columns = [pa.concat_arrays([_plain(part) for part in parts]) for parts in zip(*sample, strict=True)]
    words = row_words(columns, directions)
    order = np.argsort(words, kind="stable")
    chosen = order[np.unique((np.arange(1, min(count, _MOST_RANGES)) * len(order)) // count)] if len(order) else order
    chosen = chosen[np.unique(words[chosen], return_index=True)[1]]
    return KeyRanges(cuts=tuple(column.take(pa.array(chosen)) for column in columns), directions=tuple(directions))


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _between(known: Slots, slots: Slots) -> Slots:
    """Even numbers for positions between two cuts, odd ones for positions on a cut."""
    return np.searchsorted(known, slots, side="left") + np.searchsorted(known, slots, side="right")


def _slots_of(column: pa.Array, cuts: pa.Array, direction: Direction, is_last: bool) -> tuple[Slots, Slots, int]:
    """The positions of a column's values among the cuts' values, the positions of the cuts, and the number of
    positions. In the last column it suffices to know whether a value precedes a cut."""
    sides: tuple[str, ...] = ("left", "right")
    if is_last:
        sides = ("left",) if direction.descending else ("right",)
    found, own, known = _found(column, cuts, sides)
    many = len(sides) * known
    ours, theirs = (many - found, many - own) if direction.descending else (found, own)
    return _with_nulls(ours, column, direction, many), _with_nulls(theirs, cuts, direction, many), many + 2


def _with_nulls(slots: Slots, column: pa.Array, direction: Direction, many: int) -> Slots:
    slots = slots + 1 if direction.nulls_first else slots
    if column.null_count:
        slots[null_mask(column)] = 0 if direction.nulls_first else many + 1
    return slots


def _found(column: pa.Array, cuts: pa.Array, sides: Sequence[str]) -> tuple[Slots, Slots, int]:
    """How many distinct cut values are below each value (left), at or below it (right), or the sum; undefined for
    NULL."""
    kind = _plain(column.slice(0, 0)).type
    if is_exact(kind) or pa.types.is_decimal(kind):
        column = _plain(column)
        words = value_words(column if is_exact(kind) else pa.concat_arrays([column, cuts]))
        ours, theirs = (words, value_words(cuts)) if is_exact(kind) else (words[: len(column)], words[len(column) :])
        known = np.unique(theirs[~null_mask(cuts)])
        counts = [[np.searchsorted(known, one, side=side) for side in sides] for one in (ours, theirs)]  # type: ignore[call-overload]
        return sum(counts[0]), sum(counts[1]), len(known)
    texts = pc.unique(as_bytes(cuts.drop_null()))
    texts = texts.take(pc.sort_indices(texts))
    return _found_texts(column, texts, sides), _found_texts(cuts, texts, sides), len(texts)


def _found_texts(column: pa.Array, texts: pa.Array, sides: Sequence[str]) -> Slots:
    if pa.types.is_dictionary(column.type):
        below = np.append(_found_texts(column.dictionary, texts, sides), 0)
        return np.asarray(below[pc.fill_null(column.indices, len(below) - 1).to_numpy(zero_copy_only=False)])
    values = as_bytes(column)
    values = pc.fill_null(values, b"") if values.null_count else values
    found: Slots = sum(
        pc.search_sorted(texts, values, side=side).to_numpy(zero_copy_only=False).astype(np.int64) for side in sides
    )
    return found
