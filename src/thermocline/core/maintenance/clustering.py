"""How well files are clustered: the depth to which their key ranges overlap, and which orders a table is kept in.

Pure. Depth is the number of files that a look-up of one key must open, averaged over the files' own ranges: 1 where
ranges do not meet.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from thermocline.core.lake_file import Ends, LiveDataFile
from thermocline.errors.maintenance import SortOrderUnreadable

_KEEPS_ORDER = re.compile(r"identity|year|month|day|hour|truncate\[\d+\]")
"""Transforms whose values come in the order of the column's own, so that the column's bounds hold for them."""
_MARK = re.compile(r"(sort|zorder|hilbert)-[0-9a-f]{10}-")
NO_FIELD = -1
_MAX_MEETINGS = 2_000_000
_MAX_BOXES = 512
"""Boxes are compared each with each: of more files than this, every n-th is taken."""
_TERM = re.compile(
    r"""(?P<column>"[^"]+"|[^\s,()]+)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls[- ](?P<nulls>first|last))?""",
    re.IGNORECASE,
)


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
        """Stands in the names of files that were put in this order. By field ids: a column may change its name, or
        leave it to another."""
        terms = [(term.field_id, term.transform, term.descending, term.nulls_first) for term in self.terms]
        hashed = terms if self.kind == "sort" else [field_id for field_id, *_ in terms]
        return f"{self.kind}-{hashlib.sha256(repr(hashed).encode()).hexdigest()[:10]}"

    def output_prefix(self, pass_id: object, number: int) -> str:
        """How the files of one bin of a pass in this order are called; what writes them adds its task and their place
        in the order."""
        return f"{self.mark}-{pass_id}-{number}"

    def holds(self, file: LiveDataFile) -> bool:
        """Whether a file was written in this order, by whomever."""
        return self.wrote(file) or (self.kind == "sort" and self.order_id > 0 and file.sort_order_id == self.order_id)

    def wrote(self, file: LiveDataFile) -> bool:
        """Whether a pass of ours put the file in this order, together with all others of its bin."""
        return _name(file).startswith(f"{self.mark}-")

    def is_otherwise(self, file: LiveDataFile) -> bool:
        """Whether a file was put in another order: its rows are in the wrong one then, even where files do not
        overlap."""
        is_marked = _MARK.match(_name(file)) is not None and not self.wrote(file)
        return is_marked or (file.sort_order_id > 0 and not self.holds(file))

    def depth(self, files: Sequence[LiveDataFile]) -> float:
        """How many files a look-up by this order's keys opens.

        Bounds say less than the order: text is cut, NULL and NaN have none, and those of a column say nothing of its
        buckets. What is known for certain is that the files of one bin of ours are one sequence, whose ranges of keys
        do not overlap.
        """
        runs = [_name(file).rsplit("-", 1)[0] if self.wrote(file) else file.path for file in files]
        keys = [term.field_id if _KEEPS_ORDER.fullmatch(term.transform) else NO_FIELD for term in self.terms]
        return overlap_depth(files, keys[:1] if self.kind == "sort" else keys, runs)


def _name(file: LiveDataFile) -> str:
    return file.path.rsplit("/", 1)[-1]


def parse_sort_order(text: str, field_ids: Mapping[str, int]) -> tuple[OrderTerm, ...]:
    """`payload_id desc nulls-last, kind`; NULLs come first in ascending and last in descending order unless stated."""
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


def overlap_depth(files: Sequence[LiveDataFile], field_ids: Sequence[int], runs: Sequence[str] = ()) -> float:
    """The mean number of runs whose ranges meet a file's own, its own run counted, in all the columns given; a file is
    a run by default.

    Files of one run never meet each other. Ranges that only touch do not meet. Files without bounds meet every other
    one.
    """
    if not files:
        return 0.0
    named = list(zip(files, runs or [file.path for file in files], strict=True))
    if len(field_ids) > 1 and len(named) > _MAX_BOXES:
        named = named[:: len(named) // _MAX_BOXES + 1]
    boxes = [([file.ends.get(field_id, (None, None)) for field_id in field_ids], run) for file, run in named]
    if len(field_ids) == 1:
        return _depth_of_ranges([(box[0], run) for box, run in boxes])
    met = [
        {other_run for other, other_run in boxes if other_run != run and _boxes_meet(one, other)} for one, run in boxes
    ]
    return sum(1 + len(others) for others in met) / len(met)


class _Ranges:
    """Ranges by sorted ends: a range meets all but those that end before it begins or begin after it ends."""

    def __init__(self, ranges: Sequence[Ends]) -> None:
        bounded = [ends for ends in ranges if None not in ends]
        wide = [ends for ends in bounded if ends[0] != ends[1]]
        self._starts, self._stops = sorted(low for low, _ in wide), sorted(high for _, high in wide)
        self._unknown, self._all = len(ranges) - len(bounded), len(ranges)

    def count_meeting(self, ends: Ends) -> int:
        """How many meet it; ranges of one value are not counted, which only others contain."""
        if None in ends:
            return self._all
        apart = bisect_right(self._stops, ends[0]) + len(self._starts) - bisect_left(self._starts, ends[1])
        return len(self._starts) - apart + self._unknown


def _depth_of_ranges(ranges: Sequence[tuple[Ends, str]]) -> float:
    by_run: dict[str, list[Ends]] = defaultdict(list)
    for ends, run in ranges:
        by_run[run].append(ends)
    singles = _Ranges([found[0] for found in by_run.values() if len(found) == 1])
    many = {run: _Ranges(found) for run, found in by_run.items() if len(found) > 1}
    chosen = ranges[:: len(ranges) * len(many) // _MAX_MEETINGS + 1]
    meetings = 0
    for ends, run in chosen:
        meetings += singles.count_meeting(ends)
        # It met itself among the single ones already, unless it is of one value or of a run.
        meetings += run in many or (None not in ends and ends[0] == ends[1])
        meetings += sum(1 for other, found in many.items() if other != run and found.count_meeting(ends))
    return meetings / len(chosen)


def _boxes_meet(one: Sequence[Ends], other: Sequence[Ends]) -> bool:
    return all(_ranges_meet(*ends) for ends in zip(one, other, strict=True))


def _ranges_meet(one: Ends, other: Ends) -> bool:
    if None in (*one, *other):
        return True
    return bool(one[0] < other[1] and other[0] < one[1]) or one == other
