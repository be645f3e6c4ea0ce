"""A data file of the lake with the lowest and highest tier key it may hold: what fold and retention plans read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBounds:
    """A data file and its tier-key bounds on the axis, both inclusive."""

    path: str
    lower: int
    upper: int
