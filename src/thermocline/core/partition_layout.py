"""How the lake table is partitioned, derived from the heap's own partitions.

One heap partition should become few lake partitions, so that moving it writes few, large files: month-wide partitions
give `month`, narrower temporal ones `day`, integer ranges `truncate[width]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType
from thermocline.errors import UsageError

MAX_TRUNCATE_WIDTH = 2**31 - 1
_MONTH_DAYS = 28
_TEMPORAL = ("hour", "day", "month", "year")


def plan_layout(key_type: KeyType, bounds: Sequence[tuple[int, int]]) -> str:
    """`month`, `day`, `truncate[N]` or `none`, for the bounds of the heap's partitions."""
    widths = [hi - lo for lo, hi in bounds if lo != AXIS_MIN and hi != AXIS_MAX]
    if not widths:
        return "none" if key_type.is_integer else "day"
    if key_type.is_integer:
        return f"truncate[{widths[0]}]" if widths[0] <= MAX_TRUNCATE_WIDTH else "none"
    return "month" if sorted(widths)[len(widths) // 2] >= _MONTH_DAYS * key_type.units_per_day else "day"


def parse_layout(key_type: KeyType, text: str) -> str:
    """The layout named by an option: hour, day, month, year, width:N or none."""
    if text == "none":
        return text
    if key_type.is_integer:
        found = re.fullmatch(r"width:([0-9]+)|truncate\[([0-9]+)\]", text)
        width = int(found[1] or found[2]) if found else 0
        if not 0 < width <= MAX_TRUNCATE_WIDTH:
            raise UsageError(
                f"{text!r} is not a lake partitioning for an integer key.",
                hint="Use width:N with N up to 2147483647, or none.",
            )
        return f"truncate[{width}]"
    if text not in _TEMPORAL or (text == "hour" and key_type is KeyType.DATE):
        raise UsageError(
            f"{text!r} is not a lake partitioning for a {key_type.value} key.",
            hint="Use day, month, year or none (hour too, but not on a date).",
        )
    return text
