"""Declare a key of a policy as a field of `Policy`: its default, its spellings, its type and its range, in one place.

Two systems may name a key differently and count it in other units, so each spelling carries the factor to the field's
own unit. The first spelling is the one that a key is shown under.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field
from typing import TypeVar, get_args

from thermocline.core.policy.key_types import HOUR_MS, LARGEST, LONGEST_HOURS, MB, Spelling

_SPELLINGS = "spellings"
_SHARED = "shared"
_Default = TypeVar("_Default", bound=bool | int | float | str | tuple[str, ...])
_Choice = TypeVar("_Choice", bound=str)
Spell = Callable[[str], tuple[Spelling, ...]]
"""The spellings of a key, from the name of its field."""


def _key(default: _Default, spell: Spell, shared: bool) -> _Default:
    """A field; `shared` keys of scheduling and pacing belong to tables of every format, the others to Iceberg."""
    return field(default=default, metadata={_SPELLINGS: spell, _SHARED: shared})


def spellings_of(declared: Field[object]) -> tuple[Spelling, ...]:
    """The spellings of a field of `Policy`; none of a field that is no key."""
    spell: Spell | None = declared.metadata.get(_SPELLINGS)
    return () if spell is None else spell(declared.name)


def is_shared(declared: Field[object]) -> bool:
    """Whether the key belongs to tables of every format."""
    return bool(declared.metadata.get(_SHARED))


def flag(default: bool, *, shared: bool = False) -> bool:
    """True or false."""
    return _key(default, lambda name: (Spelling(name=name, field=name, kind="bool"),), shared)


def count(
    default: int,
    *others: str,
    lowest: int = 1,
    others_lowest: int | None = None,
    highest: int = LARGEST,
    shared: bool = False,
) -> int:
    """A whole number, also under other names."""

    def spell(name: str) -> tuple[Spelling, ...]:
        lowest_by_name = {name: lowest} | dict.fromkeys(others, others_lowest or lowest)
        return tuple(
            Spelling(name=spelled, field=name, kind="int", lowest=low, highest=highest)
            for spelled, low in lowest_by_name.items()
        )

    return _key(default, spell, shared)


def size(default: int, in_mb: str, *, lowest: int = 1, shown_in_mb: bool = False) -> int:
    """A size in bytes, also in MB under another name."""

    def spell(name: str) -> tuple[Spelling, ...]:
        in_bytes = Spelling(name=name, field=name, kind="int", lowest=lowest)
        megabytes = Spelling(name=in_mb, field=name, kind="int", factor=MB, lowest=lowest)
        return (megabytes, in_bytes) if shown_in_mb else (in_bytes, megabytes)

    return _key(default, spell, False)


def hours(default: int, *in_hours: str, lowest: int = 1) -> int:
    """A time in milliseconds, shown in hours under other names."""

    def spell(name: str) -> tuple[Spelling, ...]:
        return (
            *(
                Spelling(name=n, field=name, kind="int", factor=HOUR_MS, lowest=lowest, highest=LONGEST_HOURS)
                for n in in_hours
            ),
            Spelling(name=name, field=name, kind="int", lowest=lowest, highest=LONGEST_HOURS * HOUR_MS),
        )

    return _key(default, spell, False)


def duration(default: int, spelled: str, *, shared: bool = False) -> int:
    """A time in milliseconds, given as `90m`, `1h` or `off`."""
    longest = LONGEST_HOURS * HOUR_MS
    return _key(default, lambda name: (Spelling(name=spelled, field=name, kind="duration", highest=longest),), shared)


def rate(default: float, *, lowest: float = 0, highest: float = 1_000_000, shared: bool = False) -> float:
    """A number with a fraction."""

    def spell(name: str) -> tuple[Spelling, ...]:
        return (Spelling(name=name, field=name, kind="float", lowest=lowest, highest=highest),)

    return _key(default, spell, shared)


def text(default: str, *, check: Callable[[str], object] | None = None, shared: bool = False) -> str:
    """A text."""
    return _key(default, lambda name: (Spelling(name=name, field=name, kind="text", check=check),), shared)


def choice(default: _Choice, choices: object, *, shared: bool = False) -> _Choice:
    """One of the values of a `Literal`."""
    allowed = get_args(choices)
    return _key(default, lambda name: (Spelling(name=name, field=name, kind="choice", choices=allowed),), shared)


def names(default: tuple[str, ...], *, shared: bool = False) -> tuple[str, ...]:
    """Names separated by commas."""
    return _key(default, lambda name: (Spelling(name=name, field=name, kind="list"),), shared)
