"""Which mode suits a table: one decision from the table's facts and the needs of its owner.

no aging axis                          → mirrored
aging, Postgres must keep everything   → tiered keep-heap, or mirrored where the lake must trail in seconds
aging, the lake must trail in seconds  → mirrored with heap retention
aging, the lag is fine                 → tiered
"""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.core.modes.mode import MIRRORED, MIRRORED_HEAP_RETENTION, TIERED, TIERED_KEEP_HEAP, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the table's owner needs."""

    keep_everything: bool = False
    trail_seconds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The name of a mode, the reason, and the command to type. `until_then` says what serves today where the mode is
    not built; `registered_as` is the mode the table has already; `refusal` is what `register` says to the command."""

    table: str
    mode: str
    reason: str
    command: str | None
    until_then: str | None = None
    registered_as: str | None = None
    refusal: str | None = None
    remedy: str | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        lines = [f"{self.table}: {self.mode}", f"because {self.reason}"]
        if self.registered_as == self.mode:
            return (*lines, "it is registered so already")
        if self.registered_as is not None:
            lines.append(f"it is registered already, as {self.registered_as}: unregister it first")
        if self.command is not None:
            lines.append(f"register it by: {self.command}")
        else:
            lines.append(f"{self.mode} is not built yet; {self.until_then}")
        if self.refusal is not None:
            lines.append(f"register refuses it now: {self.refusal}")
            lines += [] if self.remedy is None else [f"what to do: {self.remedy}"]
        return tuple(lines)


def advise(table: str, axis: str | None, why_no_axis: str | None, needs: Needs) -> Advice:
    """The documented decision; `axis` is the column along which the table ages."""
    mode, reason = _decide(axis, why_no_axis, needs)
    if mode.is_built:
        return Advice(table=table, mode=mode.name, reason=reason, command=_render_command(table, mode))
    today = "until then it stays in Postgres alone"
    if (closest := mode_of_today(axis, needs)) is not None:
        today = (
            f"until then {closest} serves it with a lake that trails by the tiering lag: "
            f"{_render_command(table, closest)}"
        )
    return Advice(table=table, mode=mode.name, reason=reason, command=None, until_then=today)


def mode_of_today(axis: str | None, needs: Needs) -> Mode | None:
    """The mode in which the table can be registered today: the one advised, or the closest one that is built."""
    if axis is None:
        return None
    return TIERED_KEEP_HEAP if needs.keep_everything else TIERED


def _render_command(table: str, mode: Mode) -> str:
    return f"thermocline register {table} {mode.register_options}"


def _decide(axis: str | None, why_no_axis: str | None, needs: Needs) -> tuple[Mode, str]:
    if axis is None:
        return MIRRORED, f"it has no axis along which rows age: {why_no_axis}"
    ages = f"it ages along {axis}"
    if needs.keep_everything and needs.trail_seconds:
        return MIRRORED, f"{ages}, Postgres must keep every row, and the lake must trail in seconds"
    if needs.keep_everything:
        return TIERED_KEEP_HEAP, f"{ages}, and Postgres must keep every row"
    if needs.trail_seconds:
        return MIRRORED_HEAP_RETENTION, f"{ages}, and the lake must trail in seconds"
    return TIERED, f"{ages}, Postgres need not keep what is old, and a lake that trails by the tiering lag is fine"
