"""Which value of each policy key is in force, and which layer it came from.

Weakest first: the preset, the environment, the catalog's policy, the namespace's, the Iceberg table's properties, the
table's own policy; `table_properties_override=false` swaps the last two. The preset is the one that the strongest layer
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from thermocline.core.messages.nearest import render_nearest
from thermocline.core.policy.formats import Format, policy_value
from thermocline.core.policy.iceberg_format import ICEBERG, all_formats
from thermocline.core.policy.key_types import Spelling, Value, render_value
from thermocline.core.policy.keys import KEYS, PRESETS, SHARED, Preset, find_key, parse_value
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import BadPolicyValue, PolicySpellingsDiffer

EXPIRY_OFF = "snapshot expiry is off: nothing else may safely expire this table, and its metadata and storage will grow"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanges:
    """Values by field, and the preset, of one layer or of one command."""

    values: Mapping[str, Value]
    preset: Preset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLayers:
    """Every layer above the presets; `environment` says which variable each value came from."""

    environment: PolicyChanges
    environment_names: Mapping[str, str]
    catalog: PolicyChanges
    namespace: PolicyChanges
    properties: Mapping[str, str]
    table: PolicyChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLine:
    """One key as it is shown: under its first spelling, with where its value came from."""

    key: str
    value: str
    origin: str
    """`(table)` or `(default)`."""
    source: str
    """For a default: the layer, and the preset."""
    also: tuple[str, ...] = ()
    """Other spellings of the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPolicy:
    policy: Policy
    lines: tuple[PolicyLine, ...]
    warnings: tuple[str, ...] = ()


NOTHING = PolicyChanges(values={})


def parse_preset(text: str) -> Preset:
    if text not in PRESETS:
        raise BadPolicyValue(
            f"unknown preset {text!r}; there are {', '.join(PRESETS)}.", hint=render_nearest(text, PRESETS)
        )
    return text


def parse_changes(pairs: Iterable[str], preset: str | None = None) -> PolicyChanges:
    """`key=value` as typed; two spellings of one key must agree."""
    values: dict[str, Value] = {}
    given: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals:
            find_key(name)
            raise BadPolicyValue(f"{pair!r} is not key=value.")
        spelling, value = parse_value(name, text)
        if spelling.field in values and values[spelling.field] != value:
            raise PolicySpellingsDiffer(f"{given[spelling.field]} and {pair} name one setting with different values.")
        values[spelling.field], given[spelling.field] = value, pair
    return PolicyChanges(values=values, preset=None if preset is None else parse_preset(preset))


def change_policy(
    stored: PolicyChanges, changes: PolicyChanges, unset: Iterable[str] = (), *, reset: bool = False
) -> PolicyChanges:
    """The layer after one command: all of it or, when something is wrong, nothing."""
    gone = {find_key(name).field for name in unset}
    kept = {} if reset else {field: value for field, value in stored.values.items() if field not in gone}
    return PolicyChanges(values={**kept, **changes.values}, preset=changes.preset or (None if reset else stored.preset))


def policy_to_json(changes: PolicyChanges) -> dict[str, Any]:
    """What is stored: one value per field, whatever spelling was typed."""
    stored: dict[str, Any] = {
        field: list(value) if isinstance(value, tuple) else value for field, value in changes.values.items()
    }
    return stored if changes.preset is None else {"preset": changes.preset, **stored}


def policy_from_json(stored: Mapping[str, Any]) -> PolicyChanges:
    """Read back and checked again, because a person may have written to the catalog."""
    values: dict[str, Value] = {}
    for field, value in stored.items():
        if field == "preset":
            continue
        spelling = next((spelling for spelling in _spellings(field) if spelling.factor == 1), None) or find_key(field)
        text = (
            ",".join(value)
            if isinstance(value, list)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        if spelling.kind in ("int", "duration") and isinstance(value, int) and not isinstance(value, bool):
            values[field] = _stored_number(field, value)
        else:
            values[field] = parse_value(spelling.name, text)[1]
    preset = stored.get("preset")
    return PolicyChanges(values=values, preset=None if preset is None else parse_preset(preset))


def _spellings(field: str) -> tuple[Spelling, ...]:
    return KEYS.get(field) or next((format.keys[field] for format in all_formats() if field in format.keys), ())


def _stored_number(field: str, value: int) -> int:
    """In the field's own unit a number may be larger than that spelling lets one type, because another spelling counts
    in larger ones."""
    spellings = _spellings(field)
    lowest = min(-1 if spelling.kind == "duration" else spelling.lowest * spelling.factor for spelling in spellings)
    highest = max(spelling.highest * spelling.factor for spelling in spellings)
    if not lowest <= value <= highest:
        raise BadPolicyValue(
            f"The stored policy has {field} = {value}, which is refused: {spellings[0].name} takes "
            f"{spellings[0].allowed}."
        )
    return value


def read_properties(
    properties: Mapping[str, str], meanings: Mapping[str, str] = ICEBERG.properties
) -> tuple[dict[str, Value], dict[str, str], tuple[str, ...]]:
    """Values by field, the property each came from, and a warning for each text that is no number."""
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    warnings: list[str] = []
    for name, field in meanings.items():
        text = properties.get(name)
        if text is None:
            continue
        if text.strip().isascii() and text.strip().isdigit() and 0 < int(text) < 2**53:
            values[field], sources[field] = int(text), f"table property {name}"
        else:
            warnings.append(f"table property {name} = {text!r} cannot be read and is ignored")
    return values, sources, tuple(warnings)


def keys_of(format: Format) -> dict[str, tuple[Spelling, ...]]:
    """The keys of a table's policy: those that all formats share and the format's own, in the order they are shown."""
    shared = {field: spellings for field, spellings in KEYS.items() if field in SHARED}
    return {
        field: found
        for field in (*KEYS, *format.keys)
        if (found := shared.get(field) or format.keys.get(field)) is not None
    }


def resolve_policy(layers: PolicyLayers, format: Format = ICEBERG) -> ResolvedPolicy:
    """One value per key of the format, each with the strongest layer that has one."""
    preset: Preset = (
        layers.table.preset or layers.namespace.preset or layers.catalog.preset or layers.environment.preset or "modak"
    )
    properties, property_names, warnings = read_properties(layers.properties, format.properties)
    ordered: list[tuple[Mapping[str, Value], Mapping[str, str] | str]] = [
        (layers.environment.values, layers.environment_names),
        (layers.catalog.values, "catalog policy"),
        (layers.namespace.values, "namespace policy"),
        (properties, property_names),
        (layers.table.values, "table"),
    ]
    if not _overrides(ordered, preset):
        ordered[-2], ordered[-1] = ordered[-1], ordered[-2]
    values: dict[str, Value] = {}
    lines: list[PolicyLine] = []
    for field, spellings in keys_of(format).items():
        value, source = (ICEBERG if field in SHARED else format).preset_value(preset, field), f"preset {preset}"
        for layer, origin in ordered:
            if field in layer:
                value, source = layer[field], origin if isinstance(origin, str) else origin[field]
        values[field] = value
        lines.append(
            PolicyLine(
                key=spellings[0].name,
                value=render_value(spellings[0], value),
                origin="(table)" if source == "table" else "(default)",
                source=source,
                also=tuple(spelling.name for spelling in spellings[1:]),
            )
        )
    own = {field: value for field, value in values.items() if field not in KEYS}
    policy = Policy(
        preset=preset, own=own, **cast(dict[str, Any], {field: values[field] for field in values if field in KEYS})
    )
    return ResolvedPolicy(policy=policy, lines=tuple(lines), warnings=(*warnings, *policy_warnings(policy)))


def _overrides(ordered: Sequence[tuple[Mapping[str, Value], object]], preset: Preset) -> bool:
    """`table_properties_override`, which no table property can set."""
    value = ICEBERG.preset_value(preset, "table_properties_override")
    for layer, _ in ordered:
        value = layer.get("table_properties_override", value)
    return bool(value)


def policy_warnings(policy: Policy) -> tuple[str, ...]:
    """What a person should know of a policy that is permitted all the same."""
    return () if policy.snapshot_expiry_enabled else (EXPIRY_OFF,)


def render_policy(resolved: ResolvedPolicy) -> list[str]:
    """The same text in the command line, over HTTP and in the console."""
    width = max(len(line.key) for line in resolved.lines)
    value_width = min(24, max(len(line.value) for line in resolved.lines))
    lines = [
        (
            f"{line.key:<{width}}  {line.value or '—':<{value_width}}  "
            f"{line.origin}{'' if line.origin == '(table)' else ' ' + line.source}"
        )
        for line in resolved.lines
    ]
    return [*lines, *(f"warning: {warning}" for warning in resolved.warnings)]


def policy_record(policy: Policy, format: Format = ICEBERG) -> dict[str, Any]:
    """The policy in force as it is kept with a pass."""
    values = {"preset": policy.preset} | {field: policy_value(policy, field) for field in keys_of(format)}
    return {field: list(value) if isinstance(value, tuple) else value for field, value in values.items()}
