"""The options of `thermocline register` that choose a mode, and those that a mode refuses."""

from __future__ import annotations

from collections.abc import Callable

from thermocline.core.messages.nearest import render_nearest
from thermocline.core.modes.mode import DEFAULT_MODE, MODES, Mode
from thermocline.errors import ModeNotImplemented, UsageError, WrongCombination

OPTIONS = tuple(dict.fromkeys(mode.option for mode in MODES))
"""The values of `--mode`."""
DEFAULT_OPTION = DEFAULT_MODE.option


def choose_mode(
    option: str,
    *,
    keep_heap: bool = False,
    heap_retention: str | None = None,
    lake_retention: str | None = None,
    reclaim_lag: str | None = None,
) -> Mode:
    """The mode that the options select, or a refusal of options that do not go together."""
    if option not in OPTIONS:
        raise UsageError(f"{option!r} is not a mode.", hint=render_nearest(option, OPTIONS))
    has_window = heap_retention is not None
    selected = [m for m in MODES if m.option == option and m.with_keep_heap == keep_heap]
    if not selected:
        raise WrongCombination(
            f"--keep-heap belongs to mode {_options_where(lambda m: m.with_keep_heap)}; "
            f"a {option} heap is complete anyway.",
            hint="Leave --keep-heap out.",
        )
    mode = next((m for m in selected if m.with_heap_retention == has_window), selected[0])
    if lake_retention is not None and mode.lake_writer == "mirroring":
        raise WrongCombination(
            f"--lake-retention belongs to mode {_options_where(lambda m: m.allows_lake_retention)}: "
            "a mirror deletes nothing from the lake by itself."
        )
    if not mode.is_built:
        raise ModeNotImplemented(f"Mode {option} is not built yet.")
    if has_window and not mode.with_heap_retention:
        raise WrongCombination(
            f"--heap-retention belongs to mode {_options_where(lambda m: m.with_heap_retention)}.",
            hint=f"In mode {option}, --tiering-lag and --reclaim-lag say what stays in the heap.",
        )
    check_mode_options(mode, lake_retention=lake_retention, reclaim_lag=reclaim_lag)
    return mode


def check_mode_options(mode: Mode, *, lake_retention: str | None, reclaim_lag: str | None) -> None:
    """Refuse options that the mode does not have."""
    if lake_retention is not None and not mode.allows_lake_retention:
        raise WrongCombination(
            "--lake-retention does not go with --keep-heap: keep-heap means nothing is deleted anywhere."
        )
    if reclaim_lag is not None and not mode.drops_partitions:
        raise WrongCombination(
            "--reclaim-lag does not go with --keep-heap: no partition is ever dropped.", hint="Leave it out."
        )


def render_mode_help() -> str:
    """The help text of `--mode`."""
    built = [option for option in OPTIONS if any(m.is_built for m in MODES if m.option == option)]
    planned = [f"; {option} is not built yet" for option in OPTIONS if option not in built]
    return f"{' or '.join(built)}{''.join(planned)}."


def render_heap_retention_help() -> str:
    """The help text of `--heap-retention`."""
    return f"For mode {_options_where(lambda m: m.with_heap_retention)} only."


def _options_where(has_property: Callable[[Mode], bool]) -> str:
    return " and ".join(dict.fromkeys(mode.option for mode in MODES if has_property(mode)))
