"""Which mode suits a table: one decision from three answers. What the table is like comes from its facts, what is
wanted from its owner.

no aging axis                          → mirrored
aging, Postgres must keep everything   → tiered keep-heap, or mirrored where the lake must trail in seconds
aging, the lake must trail in seconds  → mirrored with heap retention
aging, the lag is fine                 → tiered
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """The four modes by the names people use."""

    TIERED = "tiered"
    KEEP_HEAP = "tiered keep-heap"
    MIRRORED = "mirrored"
    MIRRORED_WINDOW = "mirrored with heap retention"


_OPTIONS = {Mode.TIERED: "--mode tiered", Mode.KEEP_HEAP: "--mode tiered --keep-heap"}
"""How to register; the mirrored modes are not built yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the table's owner needs."""

    keep_everything: bool = False
    trail_seconds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A mode, why, and what to type. `until_then` serves today where the mode is not built; `registered_as` is the mode
    it has already."""

    table: str
    mode: Mode
    reason: str
    command: str | None
    until_then: str | None = None
    registered_as: str | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        said = [f"{self.table}: {self.mode}", f"because {self.reason}"]
        if self.registered_as == self.mode:
            return (*said, "it is registered so already")
        if self.registered_as is not None:
            said.append(f"it is registered already, as {self.registered_as}: unregister it first")
        if self.command is not None:
            return (*said, f"register it by: {self.command}")
        return (*said, f"{self.mode} is not built yet; {self.until_then}")


def advise(table: str, axis: str | None, why_no_axis: str | None, wishes: Wishes) -> Advice:
    """The documented decision; `axis` is the column along which the table ages."""
    mode, reason = _decide(axis, why_no_axis, wishes)
    if (options := _OPTIONS.get(mode)) is not None:
        return Advice(table=table, mode=mode, reason=reason, command=f"thermocline register {table} {options}")
    today = "until then it stays in Postgres alone"
    if axis is not None:
        closest = Mode.KEEP_HEAP if wishes.keep_everything else Mode.TIERED
        today = (
            f"until then {closest} serves it with a lake that trails by the tiering lag: thermocline register "
            f"{table} {_OPTIONS[closest]}"
        )
    return Advice(table=table, mode=mode, reason=reason, command=None, until_then=today)


def _decide(axis: str | None, why_no_axis: str | None, wishes: Wishes) -> tuple[Mode, str]:
    if axis is None:
        return Mode.MIRRORED, f"it has no axis along which rows age: {why_no_axis}"
    ages = f"it ages along {axis}"
    if wishes.keep_everything and wishes.trail_seconds:
        return Mode.MIRRORED, f"{ages}, Postgres must keep every row, and the lake must trail in seconds"
    if wishes.keep_everything:
        return Mode.KEEP_HEAP, f"{ages}, and Postgres must keep every row"
    if wishes.trail_seconds:
        return Mode.MIRRORED_WINDOW, f"{ages}, and the lake must trail in seconds"
    return Mode.TIERED, f"{ages}, Postgres need not keep what is old, and a lake that trails by the tiering lag is fine"
