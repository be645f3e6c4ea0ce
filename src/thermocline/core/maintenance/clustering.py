"""How well files are clustered: the depth to which their key ranges overlap, and which orders a table is kept in.

Pure. Depth is the number of files that a look-up of one key must open, averaged over the files' own ranges: 1 where ranges do not meet.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from thermocline.core.maintenance.files import DataSeen, Ends
from thermocline.maintenance_errors import SortOrderUnreadable

_MAX_BOXES = 512
"""Boxes are compared each with each: of more files than this, every n-th is taken."""
_TERM = re.compile(r"""(?P<column>"[^"]+"|[^\s,()]+)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls[- ](?P<nulls>first|last))?""", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerm:
    """One column of an order, by field id, with Iceberg's transform of it."""

    column: str
    field_id: int
    transform: str = "identity"
    descending: bool = False
    nulls_first: bool = True

    def render(self) -> str:
        name = self.column if self.transform == "identity" else f"{self.transform}({self.column})"
        return f"{name} {'desc' if self.descending else 'asc'} nulls-{'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """The order rows are to be kept in; `order_id` is the table's own sort order's id, or 0."""

    kind: Literal["sort", "zorder", "hilbert"]
    terms: tuple[OrderTerm, ...]
    order_id: int = 0

    def render(self) -> str:
        """`sort (payload_id asc nulls-first, …)`, `zorder (a, b)`."""
        inside = ", ".join(term.render() if self.kind == "sort" else term.column for term in self.terms)
        return f"{self.kind} ({inside})"

    @property
    def mark(self) -> str:
        """Stands in the names of files that are in this order, for orders that Iceberg has no id for."""
        return f"{self.kind}-{hashlib.sha256(self.render().encode()).hexdigest()[:10]}"

    def holds(self, file: DataSeen) -> bool:
        """Whether a file was written in this order."""
        if self.kind == "sort" and self.order_id > 0 and file.sort_order_id == self.order_id:
            return True
        return self.mark in file.path.rsplit("/", 1)[-1]


def parse_sort_order(text: str, field_ids: Mapping[str, int]) -> tuple[OrderTerm, ...]:
    """`payload_id desc nulls-last, kind`; NULLs come first in ascending and last in descending order unless said."""
    terms = []
    for part in text.split(","):
        found = _TERM.fullmatch(part.strip())
        if found is None:
            raise SortOrderUnreadable(f"{part.strip()!r} is no term of a sort order.")
        name = found["column"].strip('"')
        if name not in field_ids:
            raise SortOrderUnreadable(f"The sort order names {name}, which is no column of the table.")
        descending = (found["direction"] or "asc").lower() == "desc"
        nulls_first = (found["nulls"] or ("last" if descending else "first")).lower() == "first"
        terms.append(OrderTerm(column=name, field_id=field_ids[name], descending=descending, nulls_first=nulls_first))
    return tuple(terms)


def overlap_depth(files: Sequence[DataSeen], field_ids: Sequence[int]) -> float:
    """The mean number of files whose ranges meet a file's own, itself counted, in all the columns given.

    Ranges that only touch do not meet. Files without bounds meet every other one.
    """
    if not files:
        return 0.0
    if len(field_ids) > 1 and len(files) > _MAX_BOXES:
        files = files[:: len(files) // _MAX_BOXES + 1]
    boxes = [[file.ends.get(field_id, (None, None)) for field_id in field_ids] for file in files]
    if len(field_ids) == 1:
        return _depth_of_ranges([box[0] for box in boxes])
    meetings = sum(_boxes_meet(one, other) for at, one in enumerate(boxes) for other in boxes[at + 1 :])
    return 1 + 2 * meetings / len(files)


def _depth_of_ranges(ranges: Sequence[Ends]) -> float:
    """By sorted ends: a range meets all but those that end before it begins or begin after it ends."""
    known = [ends for ends in ranges if None not in ends]
    wide = [ends for ends in known if ends[0] != ends[1]]
    starts, stops = sorted(low for low, _ in wide), sorted(high for _, high in wide)
    unknown = len(ranges) - len(known)
    meetings = unknown * len(ranges)
    for low, high in known:
        apart = bisect_right(stops, low) + len(starts) - bisect_left(starts, high)
        meetings += len(wide) - apart + unknown + (low == high)
    return meetings / len(ranges)


def _boxes_meet(one: Sequence[Ends], other: Sequence[Ends]) -> bool:
    return all(_ranges_meet(*ends) for ends in zip(one, other, strict=True))


def _ranges_meet(one: Ends, other: Ends) -> bool:
    if None in (*one, *other):
        return True
    return bool(one[0] < other[1] and other[0] < one[1]) or one == other
