"""Parse the constants of a statement as exact values from Postgres' text form, never by another engine's parser.

A constant that is not in the form in which Postgres prints values raises `NotProvable`, and Postgres parses it instead.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from thermocline.core.types import LAKE_TYPES, POSTGRES_TYPES

ConstantType = str
"""The `constant` of a declared column type, `number` for a literal number, `unknown` for a string without a type."""


class NotProvable(Exception):
    """DuckDB's result of an expression is not known to equal Postgres'."""


@dataclass(frozen=True, slots=True)
class Infinity:
    """`infinity` or `-infinity` of a date or timestamp: above or below every value the lake can hold."""

    positive: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as written in the statement: its text (or NULL) and the type it is cast to."""

    text: str | None
    type: ConstantType


Value = bool | int | float | Decimal | str | bytes | uuid.UUID | Infinity

_ACCEPTED: dict[str, tuple[ConstantType, ...]] = {
    kind: (*LAKE_TYPES[kind].constants, "unknown") for kind in POSTGRES_TYPES
}

_INTEGER = re.compile(r"[+-]?\d{1,18}|[+-]?\d{19}")
_NUMBER = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d{1,4})?")
_DATE = re.compile(r"(\d{4,7})-(\d\d)-(\d\d)( BC)?")
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?"
_TIME = re.compile(_CLOCK)
_TIMESTAMP = re.compile(r"(\d{4,7})-(\d\d)-(\d\d)(?:[ T]" + _CLOCK + r")?(Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?( BC)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_BYTEA = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")
_DAY_COUNTS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_value(kind: str, constant: Constant) -> Value:
    """The constant as a value of a lake column's type; `constant.text` must not be None."""
    if constant.type not in _ACCEPTED[kind] or constant.text is None:
        raise NotProvable(f"{constant.type} constant against a {kind} column")
    text, declared = constant.text, LAKE_TYPES[kind]
    match declared.text_form:
        case "boolean":
            return _boolean(text)
        case "integer":
            return parse_int(text)
        case "float":
            single = constant.type == "unknown" and declared.storage == "float4"
            return _float(text, single=single or constant.type == "float")
        case "decimal":
            return _decimal(text)
        case "date":
            return _date(text)
        case "time":
            return _time_of_day(_TIME.fullmatch(text))
        case "timestamp" | "timestamptz":
            return _timestamp(text, zoned=declared.text_form == "timestamptz")
        case "uuid":
            return uuid.UUID(text) if _UUID.fullmatch(text) else _not_provable(text)
        case "hex":
            found = _BYTEA.fullmatch(text)
            return bytes.fromhex(found[1]) if found else _not_provable(text)
    return text


def _not_provable(text: str) -> bytes:
    raise NotProvable(f"constant {text[:40]!r} is not in a plain form")


def _boolean(text: str) -> bool:
    if text not in ("t", "f", "true", "false"):
        _not_provable(text)
    return text.startswith("t")


def parse_int(text: str) -> int:
    """An integer of at most 64 bits."""
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        _not_provable(text)
    return int(text)


def _float(text: str, *, single: bool) -> float:
    named = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
    if text not in named and not _NUMBER.fullmatch(text):
        _not_provable(text)
    value = named[text] if text in named else float(text)
    if text not in named and (value in (float("inf"), float("-inf")) or (value == 0 and text.strip("+-0.eE"))):
        _not_provable(text)
    if not single:
        return value
    with np.errstate(over="ignore"):
        narrow = float(np.float32(value))
    if text not in named and (narrow in (float("inf"), float("-inf")) or (narrow == 0) != (value == 0)):
        _not_provable(text)
    return narrow


def _decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        _not_provable(text)
    return Decimal(text)


def days_from_civil(year: int, month: int, day: int) -> int:
    """The day number of a date of the proleptic Gregorian calendar (astronomical year), 0 being 1970-01-01."""
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _days(year_text: str, month_text: str, day_text: str, *, bc: bool) -> int:
    year, month, day = int(year_text), int(month_text), int(day_text)
    if bc:
        year = 1 - year
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if int(year_text) == 0 or not 1 <= month <= 12 or not 1 <= day <= _DAY_COUNTS[month - 1] + (leap and month == 2):
        _not_provable(f"{year_text}-{month_text}-{day_text}")
    return days_from_civil(year, month, day)


def _infinity(text: str) -> Infinity | None:
    return {"infinity": Infinity(True), "-infinity": Infinity(False)}.get(text)


def _date(text: str) -> int | Infinity:
    if endless := _infinity(text):
        return endless
    found = _DATE.fullmatch(text)
    if not found:
        raise NotProvable(f"date {text[:40]!r} is not in a plain form")
    return _days(found[1], found[2], found[3], bc=bool(found[4]))


def _time_of_day(found: re.Match[str] | None, first: int = 1) -> int:
    if not found:
        raise NotProvable("time is not in a plain form")
    hour, minute, second = (int(found[first + part] or 0) for part in range(3))
    if hour > 23 or minute > 59 or second > 59:
        _not_provable(found[0])
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((found[first + 3] or "").ljust(6, "0"))


def _timestamp(text: str, *, zoned: bool) -> int | Infinity:
    if endless := _infinity(text):
        return endless
    found = _TIMESTAMP.fullmatch(text)
    if not found or (found[8] and not zoned):
        raise NotProvable(f"timestamp {text[:40]!r} is not in a plain form")
    days = _days(found[1], found[2], found[3], bc=bool(found[9]))
    micros = days * 86_400_000_000 + _time_of_day(found, 4) - _offset_micros(found[8])
    if not -(2**63) < micros < 2**63 - 1:
        _not_provable(text)
    return micros


def _offset_micros(text: str | None) -> int:
    if not text or text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return (-seconds if text[0] == "-" else seconds) * 1_000_000


def parse_array(text: str) -> tuple[str | None, ...]:
    """The elements of a one-dimensional array in Postgres' text form."""
    if not (text.startswith("{") and text.endswith("}")):
        _not_provable(text)
    elements: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        element, at = _array_element(text, at, end)
        elements.append(element)
        if at < end:
            if text[at] != "," or at + 1 == end:
                _not_provable(text)
            at += 1
    return tuple(elements)


_BARE = re.compile(r'[^{},"\\\s]+')


def _array_element(text: str, at: int, end: int) -> tuple[str | None, int]:
    if text[at] != '"':
        found = _BARE.match(text, at, end)
        if not found:
            raise NotProvable("array is not in a plain form")
        return (None if found[0].upper() == "NULL" else found[0]), found.end()
    letters: list[str] = []
    at += 1
    while at < end and text[at] != '"':
        at += text[at] == "\\"
        letters.append(text[at])
        at += 1
    if at >= end:
        _not_provable(text)
    return "".join(letters), at + 1
