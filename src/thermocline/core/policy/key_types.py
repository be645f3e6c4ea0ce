"""A key of a policy under one name: its type, its range, how a value of it is read and shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from thermocline.core.types.intervals import parse_interval, render_interval
from thermocline.errors.maintenance import BadPolicyValue

Value = bool | int | float | str | tuple[str, ...]
_Number = TypeVar("_Number", int, float)
Kind = Literal["bool", "int", "float", "choice", "text", "list", "duration"]
MB = 1_048_576
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LARGEST = 2_147_483_647
LONGEST_HOURS = 876_000
"""A hundred years: what is subtracted from now must stay a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One name of a key. A number given under it, times `factor`, is the field's value."""

    name: str
    field: str
    kind: Kind
    factor: int = 1
    lowest: float = 1
    highest: float = LARGEST
    choices: tuple[str, ...] = ()
    check: Callable[[str], object] | None = None

    @property
    def allowed(self) -> str:
        """What may be given, in words."""
        match self.kind:
            case "bool":
                return "true or false"
            case "choice":
                return ", ".join(self.choices[:-1]) + f" or {self.choices[-1]}"
            case "int":
                return f"a whole number from {self.lowest:.0f} to {self.highest:.0f}"
            case "float":
                return f"a number from {self.lowest:g} to {self.highest:.10g}"
            case "duration":
                return "off, or an interval such as 90m, '2 hours' or '1 day 12:00'"
            case "list":
                return "names separated by commas"
            case "text":
                return "a text"


def parse_as(spelling: Spelling, text: str) -> Value:
    """The value in the field's own unit; refused with what may be given."""
    try:
        return _parsed(spelling, text.strip())
    except ValueError as problem:
        reason = f" ({problem})" if str(problem) else ""
        raise BadPolicyValue(
            f"{spelling.name}={text} is refused{reason}: {spelling.name} takes {spelling.allowed}."
        ) from None


def _parsed(spelling: Spelling, text: str) -> Value:
    match spelling.kind:
        case "bool":
            return _parsed_bool(text)
        case "int":
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
                raise ValueError
            return _within(spelling, int(text)) * spelling.factor
        case "float":
            number = float(text)
            if not math.isfinite(number):
                raise ValueError
            return _within(spelling, number) * spelling.factor
        case "choice":
            if text not in spelling.choices:
                raise ValueError
            return text
        case "duration":
            return parse_duration_ms(text)
        case "list" | "text":
            return _parsed_words(spelling, text)


def _parsed_words(spelling: Spelling, text: str) -> Value:
    if spelling.check is not None:
        spelling.check(text)
    if spelling.kind == "text":
        return text
    names = tuple(name for name in (part.strip() for part in text.split(",")) if name)
    return () if names == ("all",) else names


def _within(spelling: Spelling, number: _Number) -> _Number:
    if not spelling.lowest <= number <= spelling.highest:
        raise ValueError
    return number


def _parsed_bool(text: str) -> bool:
    match text.lower():
        case "true" | "on" | "yes":
            return True
        case "false" | "off" | "no":
            return False
    raise ValueError


def parse_duration_ms(text: str) -> int:
    """`off` is below zero; a plain 0 is at once; else what Postgres reads as an interval."""
    if text == "off":
        return -1
    if text == "0":
        return 0
    interval = parse_interval(text)
    if interval is None or interval.longest_microseconds % 1000:
        raise ValueError
    milliseconds = interval.longest_microseconds // 1000
    if milliseconds > LONGEST_HOURS * HOUR_MS:
        raise ValueError
    return milliseconds


def render_duration_ms(milliseconds: int) -> str:
    """As Postgres writes an interval."""
    return "off" if milliseconds < 0 else render_interval(milliseconds * 1000) if milliseconds else "0"


def render_value(spelling: Spelling, value: Value) -> str:
    """The field's value under this spelling, as it would be given."""
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
        case str():
            return value
    if spelling.kind == "duration":
        return render_duration_ms(int(value))
    return f"{value / spelling.factor:.10g}" if value % spelling.factor else f"{value / spelling.factor:.17g}"
