"""The settings of a table that `register` chooses and `alter` changes: lags, lake retention and premake.

Pure. Both commands parse and check them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, parse_duration, render_duration
from thermocline.core.modes.mode import Mode
from thermocline.core.modes.registration_options import check_mode_options
from thermocline.errors import BadDuration, UsageError, WrongCombination

MAX_PREMAKE = 1000
FOREVER = "none"
"""The value of `--lake-retention` that keeps rows for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSettings:
    """The options as they were given; None where one was not."""

    tiering_lag: str | None = None
    reclaim_lag: str | None = None
    lake_retention: str | None = None
    premake: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The settings on the table's axis; without a lake retention rows stay for ever."""

    tiering_lag: int
    reclaim_lag: int
    lake_retention: int | None
    premake: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One setting before and after, as people write it."""

    setting: str
    before: str
    after: str


def choose_settings(key_type: KeyType, mode: Mode, requested: RequestedSettings, held: TableSettings) -> TableSettings:
    """The settings that hold with these options; refuses a value that is none, and what the mode does not have."""
    check_mode_options(
        mode, lake_retention=given_retention(requested.lake_retention), reclaim_lag=requested.reclaim_lag
    )
    if requested.premake is not None and not 0 <= requested.premake <= MAX_PREMAKE:
        raise UsageError(
            f"--premake {requested.premake} is out of range.", hint=f"Give a number from 0 (off) to {MAX_PREMAKE}."
        )
    return TableSettings(
        tiering_lag=_lag(key_type, requested.tiering_lag, held.tiering_lag),
        reclaim_lag=_lag(key_type, requested.reclaim_lag, held.reclaim_lag),
        lake_retention=_retention(key_type, requested.lake_retention, held.lake_retention),
        premake=held.premake if requested.premake is None else requested.premake,
    )


def check_retention_has_width(
    table: str, retention: int | None, width: int | None, bounds: Sequence[tuple[int, int]]
) -> None:
    """Refuse a lake retention where nobody can tell how wide a partition is: R moves by whole partitions."""
    if retention is not None and width is None and all(lo == AXIS_MIN or hi == AXIS_MAX for lo, hi in bounds):
        raise WrongCombination(
            f"--lake-retention needs to know how wide a partition of {table} is, and none has two bounds.",
            hint="Give --partition-width too, when the table is registered.",
        )


def list_changes(key_type: KeyType, before: TableSettings, after: TableSettings) -> tuple[SettingChange, ...]:
    """The settings that differ."""
    return tuple(
        SettingChange(
            setting=field.name,
            before=render_setting(key_type, field.name, getattr(before, field.name)),
            after=render_setting(key_type, field.name, getattr(after, field.name)),
        )
        for field in fields(TableSettings)
        if getattr(before, field.name) != getattr(after, field.name)
    )


def render_setting(key_type: KeyType, name: str, value: int | None) -> str:
    """A setting as its option takes it."""
    if value is None:
        return FOREVER
    return str(value) if name == "premake" or value == 0 else render_duration(key_type, value)


def given_retention(text: str | None) -> str | None:
    """The retention that an option sets; None where it was not given or keeps rows for ever."""
    return None if text is None or text.strip().lower() == FOREVER else text


def parse_positive(key_type: KeyType, option: str, text: str) -> int:
    """A duration above 0."""
    if (found := parse_duration(key_type, text, is_step=option == "--partition-width")) == 0:
        raise BadDuration(f"{option} {text} is nothing.", hint="Give a duration above 0, or leave the option out.")
    return found


def _lag(key_type: KeyType, text: str | None, held: int) -> int:
    return held if text is None else parse_duration(key_type, text)


def _retention(key_type: KeyType, text: str | None, held: int | None) -> int | None:
    if text is None:
        return held
    given = given_retention(text)
    return None if given is None else parse_positive(key_type, "--lake-retention", given)
