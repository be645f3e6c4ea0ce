"""The state of a table at one moment: the input of every plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from thermocline.core.axis import KeyType
from thermocline.core.modes.mode import DEFAULT_MODE, Mode
from thermocline.core.names import TableName

PartitionState = Literal["hot", "sealing", "tiering", "tiered", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionObservation:
    """A partition of the heap, its bounds on the axis and its state.

    `is_behind_tiering`: some row of the table lies at or above its upper bound plus the tiering lag; rows beyond a jump
    that was not accepted do not count. `is_reclaimable`: the reclaim lag has passed since it was moved.
    """

    oid: int
    name: TableName
    lo: int
    hi: int
    state: PartitionState
    size_bytes: int
    is_behind_tiering: bool = False
    is_reclaimable: bool = False
    is_empty: bool = False
    is_permanent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLine:
    """T, S, R, the fence and the lake literal of the seam: one row of `thermocline.cutline`."""

    t: int
    s: int | None
    seam_line: int
    fence: int
    r: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableObservation:
    """One registered table: its cut-line and its partitions in the order of their bounds.

    `now` is the clock of Postgres on the axis; None where the tier key is not temporal. Rows at or above `ceiling` do
    not count because of a jump, and `waits` are the sentences about them.
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
    ceiling: int | None = None

    def is_past(self, moment: int) -> bool:
        """Whether the clock has reached a moment on the axis; without a clock, always."""
        return self.now is None or moment <= self.now
