"""The scan of one lake table in a statement."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from decimal import Decimal

from thermocline.gateway.sql.column_mapping import MappedTable
from thermocline.gateway.sql.fragments import Fragment
from thermocline.gateway.sql.values import Infinity, Value
from thermocline.lake.read.scan import Bound, BoundValue


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """One lake table of a statement: its position in the text, its snapshot, and the provable part of its condition."""

    mapped_table: MappedTable
    snapshot_id: int | None
    condition: tuple[Fragment, ...]
    bounds: tuple[Bound, ...]
    start: int
    end: int
    alias: str | None
    sampled_rows: int | None = None
    """About so many rows at random, where ANALYZE asks; none: all."""


def bound_value(value: Value) -> BoundValue | None:
    match value:
        case Infinity():
            return 2**63 - 1 if value.positive else -(2**63)
        case uuid.UUID():
            return value.bytes
        case str():
            return value.encode()
        case int() | Decimal() | bytes():
            return value
    return None
