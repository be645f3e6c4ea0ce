"""Which partitions a pass may touch: the policy's `where`, and windows that are not sealed yet.

Pure: text and ordinals in, verdicts out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from thermocline.core.lake_file import Values
from thermocline.core.maintenance.files import LakeSnapshot, PartitionField
from thermocline.errors.maintenance import BadWhere

NOT_SEALED = "window not sealed"
_TERM = re.compile(
    r"""\s*(?P<column>"[^"]+"|[^\W\d][\w.$]*)\s*(?:=\s*(?P<one>'(?:[^']|'')*'|[^\s'(),]+)|in\s*\((?P<many>[^)]*)\))\s*""",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"\s*(?:'((?:[^']|'')*)'|([^\s'(),]+))\s*(?:,|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`column = one of values`, as text."""

    column: str
    values: frozenset[str]


def parse_where(text: str) -> tuple[Condition, ...]:
    """`day = '2024-03-15' and region in ('us', 'eu')`."""
    if not text.strip():
        return ()
    return tuple(_parse_term(part, text) for part in _split_and(text))


def _split_and(text: str) -> list[str]:
    """The terms between `and`s that stand outside of quotes."""
    pieces, current = [], ""
    for token in re.findall(r"'(?:[^']|'')*'|\band\b|[^']", text, re.IGNORECASE):
        if token.lower() == "and":
            pieces.append(current)
            current = ""
        else:
            current += token
    return [*pieces, current]


def _parse_term(part: str, text: str) -> Condition:
    found = _TERM.fullmatch(part)
    if found is None:
        raise BadWhere(f"where {text!r}: {part.strip()!r} is neither `column = value` nor `column in (…)`.")
    values = _parse_values(found["one"] if found["one"] is not None else found["many"], text)
    return Condition(column=found["column"].strip('"'), values=values)


def _parse_values(literals: str, text: str) -> frozenset[str]:
    at, values = 0, set()
    while at < len(literals):
        found = _LITERAL.match(literals, at)
        if found is None:
            raise BadWhere(f"where {text!r}: {literals.strip()!r} is not a list of values.")
        values.add(found[1].replace("''", "'") if found[1] is not None else found[2])
        at = found.end()
    if not values:
        raise BadWhere(f"where {text!r}: a list of values is empty.")
    return frozenset(values)


def why_not_where(seen: LakeSnapshot, conditions: tuple[Condition, ...]) -> str | None:
    """Why the table cannot be limited by these conditions."""
    fields = seen.specs.get(seen.default_spec_id, ())
    if conditions and not any(field.transform != "void" for field in fields):
        return "where needs a partitioned table, and this one is not partitioned"
    partition_columns = {name for spec in seen.specs.values() for field in spec for name in _names(field)}
    for condition in conditions:
        if condition.column not in partition_columns:
            there = ", ".join(sorted(partition_columns))
            return f"where names {condition.column}, which is no partition column; there are {there}"
    return None


def _names(field: PartitionField) -> tuple[str, ...]:
    """A partition field goes by its own name, and by its column's where the value is the column's own or the column's
    day."""
    return (field.name, field.source) if field.transform in ("identity", "day") else (field.name,)


def is_in_where(seen: LakeSnapshot, group: tuple[int, Values], conditions: tuple[Condition, ...]) -> bool:
    """Whether a partition satisfies every condition; a spec without the column does not."""
    texts = seen.partition_texts.get(group, {})
    fields = seen.specs.get(group[0], ())
    return all(_satisfies(fields, texts, condition) for condition in conditions)


def _satisfies(fields: tuple[PartitionField, ...], texts: Mapping[str, str], condition: Condition) -> bool:
    return any(texts.get(field.name) in condition.values for field in fields if condition.column in _names(field))


def window_end(seen: LakeSnapshot, group: tuple[int, Values]) -> datetime | None:
    """When the time window of a partition ended, or will end; None for a partition that is no window of time."""
    fields = seen.specs.get(group[0], ())
    ends = [
        end
        for field, value in zip(fields, group[1], strict=False)
        if (end := _end_of(field.transform, value)) is not None
    ]
    return min(ends, default=None)


def _end_of(transform: str, value: object) -> datetime | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        match transform:
            case "hour":
                return epoch + timedelta(hours=value + 1)
            case "day":
                return epoch + timedelta(days=value + 1)
            case "month":
                return datetime(1970 + (value + 1) // 12, (value + 1) % 12 + 1, 1, tzinfo=UTC)
            case "year":
                return datetime(1970 + value + 1, 1, 1, tzinfo=UTC)
            case _:
                return None
    except (OverflowError, ValueError):
        return datetime.max.replace(tzinfo=UTC)


def is_sealed(
    seen: LakeSnapshot, group: tuple[int, Values], newest_ms: int | None, sealed_after_ms: int, now: datetime
) -> bool:
    """Whether a window ended long enough ago, and so did the last commit into it; a partition that is no window is
    always sealed."""
    end = window_end(seen, group)
    if sealed_after_ms < 0 or end is None:
        return True
    if newest_ms is not None:
        end = max(end, datetime.fromtimestamp(newest_ms / 1000, UTC))
    return bool(end <= now - timedelta(milliseconds=sealed_after_ms))
