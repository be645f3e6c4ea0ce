"""What a format of lake tables says of itself: its operations, the keys of its policy, what its passes and its health
count.

Scheduling, policy, safety and the journal are the same for every format and know a format by this alone. Iceberg is the
first (`iceberg.py`); others are added as they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from thermocline.core.policy.key_types import Spelling, Value
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import FormatUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSpec:
    """One operation; it runs when any of the keys in `enabled_by` is true."""

    name: str
    enabled_by: tuple[str, ...]
    only_when_named: bool = False
    silent_when_idle: bool = False
    """Part of every pass, and worth a sentence only when it was named or did something."""
    is_paced: bool = False
    """Reads and writes data files, so quiet windows and back-off hold it."""
    is_of_whole_table: bool = False
    """Cannot be limited to partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format as data. `operations` are in the order they run; `orders` names presets with another one."""

    name: str
    operations: tuple[OperationSpec, ...]
    keys: Mapping[str, tuple[Spelling, ...]]
    """Its own keys by field, each with its spellings; the first is the one it is shown under."""
    defaults: Mapping[str, Value]
    preset_values: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    totals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Totals of a pass, each with the counters it is the sum of, as `operation.counter`."""
    health: Mapping[str, str] = field(default_factory=dict)
    """Figures of a table's health that are numbers, each with what it means."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of a table that stand for keys."""

    def operation(self, name: str) -> OperationSpec | None:
        return next((spec for spec in self.operations if spec.name == name), None)

    def preset_value(self, preset: str, field: str) -> Value:
        own = self.preset_values.get(preset, {}).get(field)
        return own if own is not None else self.defaults[field]


GROUP = "thermocline.formats"
"""The entry points under which installed packages offer formats."""

_ADDED: dict[str, Format] = {}


def add_format(format: Format) -> None:
    """Register a format; no other may have its keys."""
    taken = {name for other in _ADDED.values() if other.name != format.name for name in other.keys} | {
        f.name for f in fields(Policy)
    }
    if shared := sorted(taken & set(format.keys)):
        raise FormatUnusable(f"The format {format.name} calls a key {shared[0]}, which is taken.")
    if missing := sorted(set(format.keys) - set(format.defaults)):
        raise FormatUnusable(f"The format {format.name} has no default for its key {missing[0]}.")
    _ADDED[format.name] = format


def added_formats() -> tuple[Format, ...]:
    return tuple(_ADDED.values())


def added_spellings() -> dict[str, Spelling]:
    return {
        spelling.name: spelling
        for format in _ADDED.values()
        for spellings in format.keys.values()
        for spelling in spellings
    }


def policy_value(policy: Policy, field: str) -> Value:
    """The value of a key, of whichever format."""
    value: Value = policy.own[field] if field in policy.own else getattr(policy, field)
    return value
