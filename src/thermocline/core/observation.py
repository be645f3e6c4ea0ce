"""What was seen of a table at one moment: the input of every plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from thermocline.core.axis import KeyType
from thermocline.core.modes.mode import DEFAULT_MODE, Mode
from thermocline.core.names import TableName

PartitionState = Literal["hot", "sealing", "tiering", "tiered", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObservation:
    """A partition that exists, its bounds on the axis, and how far it has come.

    `is_behind_tiering` and `is_behind_reclaim`: some row of the table that is believed lies at or above its upper bound
    plus the lag.
    """

    oid: int
    name: TableName
    lo: int
    hi: int
    state: PartitionState
    size_bytes: int
    is_behind_tiering: bool = False
    is_behind_reclaim: bool = False
    is_empty: bool = False
    is_permanent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLine:
    """T, S and the literal of the seam, as one row gave them."""

    t: int
    s: int | None
    seam_line: int
    fence: int
    r: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableObservation:
    """One registered table: its cut-line and its partitions in the order of their bounds.

    `now` is Postgres' clock on the axis; None where the tier key tells no time. `waits` say which rows are not
    believed, and why.
    """

    table: TableName
    key_type: KeyType
    cut: CutLine
    partitions: tuple[PartitionObservation, ...]
    mode: Mode = DEFAULT_MODE
    now: int | None = None
    tiering_lag: int = 0
    reclaim_lag: int = 0
    waits: tuple[str, ...] = ()

    def is_past(self, place: int) -> bool:
        """Whether the clock has reached a place; without a clock, always."""
        return self.now is None or place <= self.now
