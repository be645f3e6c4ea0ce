"""Merge the statistics of several column chunks into those of one chunk with all their values.

Wrong bounds lose rows, so doubtful ones are left out: bounds of a chunk that has none (unless all its values are NULL),
and an order that is unknown or that readers disagree about. The smallest of several lower bounds is a lower bound,
truncated or not.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.parquet.footer.leaf_columns import DISPUTED, Leaf, ValueOrder, statistics_decoder
from thermocline.parquet.thrift.structs import Fields, Part, bool_field, int_field, render_struct, string_field


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMax:
    """The lowest and the highest value, as bytes, and whether each is an exact value of the column or a truncated
    bound; None: not stated."""

    low: bytes
    high: bytes
    low_exact: bool | None = None
    high_exact: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of a chunk; `old` is the deprecated pair of bounds."""

    nulls: int | None = None
    ends: MinMax | None = None
    old: MinMax | None = None

    def render(self) -> bytes:
        """The statistics as the footer stores them."""
        parts: list[Part] = []
        if self.old is not None:
            parts += [string_field(1, self.old.high), string_field(2, self.old.low)]
        if self.nulls is not None:
            parts.append(int_field(3, self.nulls))
        if self.ends is not None:
            parts += [string_field(5, self.ends.high), string_field(6, self.ends.low)]
            parts += [] if self.ends.high_exact is None else [bool_field(7, self.ends.high_exact)]
            parts += [] if self.ends.low_exact is None else [bool_field(8, self.ends.low_exact)]
        return render_struct(parts)


def read_statistics(found: Fields) -> Statistics:
    """Statistics from a footer."""
    ends = old = None
    if 5 in found and 6 in found:
        ends = MinMax(low=found[6], high=found[5], low_exact=found.get(8), high_exact=found.get(7))
    if 1 in found and 2 in found:
        old = MinMax(low=found[2], high=found[1])
    return Statistics(nulls=found.get(3), ends=ends, old=old)


def merge_statistics(leaf: Leaf, chunks: Sequence[tuple[int, Statistics | None]]) -> Statistics | None:
    """The statistics that hold for all chunks. Each comes with its number of values, NULLs included."""
    if len(chunks) == 1:
        return without_disputed(leaf, chunks[0][1])
    filled = [(values, found) for values, found in chunks if values]
    known = [found for _, found in filled if found is not None]
    if not known:
        return None
    counts = [found.nulls for found in known if found.nulls is not None]
    nulls = sum(counts) if len(counts) == len(filled) else None
    # A chunk that is NULL throughout has no bounds and needs none.
    bounded = [found for values, found in filled if found is None or found.nulls != values]
    ends = _merge_ends(leaf, [found.ends if found is not None else None for found in bounded])
    # The old pair of bounds is always compared as signed.
    old = (
        _merge_ends(leaf, [found.old if found is not None else None for found in bounded])
        if leaf.order is ValueOrder.SIGNED
        else None
    )
    return Statistics(nulls=nulls, ends=ends, old=old)


def without_disputed(leaf: Leaf, found: Statistics | None) -> Statistics | None:
    """The statistics of one chunk, without bounds that readers interpret differently."""
    return Statistics(nulls=found.nulls) if found is not None and leaf.order in DISPUTED else found


def _merge_ends(leaf: Leaf, all_ends: Sequence[MinMax | None]) -> MinMax | None:
    ends = [one for one in all_ends if one is not None]
    if leaf.order is ValueOrder.NONE or leaf.order in DISPUTED or not ends or len(ends) < len(all_ends):
        return None
    key = statistics_decoder(leaf)
    try:
        lows = [key(one.low) for one in ends]
        highs = [key(one.high) for one in ends]
    except (ValueError, struct.error):
        return None
    low, high = min(lows), max(highs)
    lowest = [one for one, value in zip(ends, lows, strict=True) if value == low]
    highest = [one for one, value in zip(ends, highs, strict=True) if value == high]
    return MinMax(
        low=lowest[0].low,
        high=highest[0].high,
        low_exact=_exact([one.low_exact for one in lowest]),
        high_exact=_exact([one.high_exact for one in highest]),
    )


def _exact(flags: Sequence[bool | None]) -> bool | None:
    """A bound is exact when one chunk holds the value itself."""
    if any(flags):
        return True
    return None if None in flags else False
