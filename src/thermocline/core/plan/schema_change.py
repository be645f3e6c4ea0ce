"""The changes that bring the lake's schema to the table's current columns.

Pure: the lake's fields and the wanted columns in, changes or a refusal out. A field is identified by its id, never by
its name: a renamed column keeps its values, and a column that was dropped and added again does not get its old values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from typing import Literal

from thermocline.core.columns import LakeColumn
from thermocline.core.types import lake_type_named, parse_lake_type


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """A field of the lake's current schema."""

    field_id: int
    name: str
    lake_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One change of the lake's schema; `before` and `after` are names or types."""

    kind: Literal["add", "drop", "rename", "promote"]
    field_id: int
    name: str
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSchemaRefusal:
    """Why the lake cannot hold the columns: a sentence without its full stop."""

    reason: str


def plan_lake_schema(
    fields: Sequence[SchemaField], last_field_id: int, wanted: Sequence[LakeColumn]
) -> tuple[FieldChange, ...] | LakeSchemaRefusal:
    """The changes in the order drop, rename, promote, add; empty when the lake has the columns already."""
    held = {field.field_id: field for field in fields}
    wanted_ids = {column.field_id for column in wanted}
    changes = [
        FieldChange(kind="drop", field_id=f.field_id, name=f.name) for f in fields if f.field_id not in wanted_ids
    ]
    for column in wanted:
        field = held.get(column.field_id)
        if field is None:
            if column.field_id <= last_field_id:
                return LakeSchemaRefusal(
                    reason=f"field {column.field_id} of the lake, wanted for column {column.name}, was used by others"
                )
            changes.append(FieldChange(kind="add", field_id=column.field_id, name=column.name, after=column.lake_type))
            continue
        if field.name != column.name:
            changes.append(
                FieldChange(
                    kind="rename", field_id=field.field_id, name=column.name, before=field.name, after=column.name
                )
            )
        if same_type(field.lake_type, column.lake_type):
            continue
        if not can_promote(field.lake_type, column.lake_type):
            return LakeSchemaRefusal(
                reason=f"column {column.name} is {field.lake_type} in the lake and cannot become {column.lake_type}"
            )
        changes.append(
            FieldChange(
                kind="promote",
                field_id=field.field_id,
                name=column.name,
                before=field.lake_type,
                after=column.lake_type,
            )
        )
    order = ("drop", "rename", "promote", "add")
    return tuple(sorted(changes, key=lambda change: order.index(change.kind)))


def same_type(held: str, wanted: str) -> bool:
    return held.replace(" ", "") == wanted.replace(" ", "")


def can_promote(held: str, wanted: str) -> bool:
    """Whether Iceberg reads files of one type as the other without changing a value."""
    before, after = parse_lake_type(held), parse_lake_type(wanted)
    if before is None or after is None:
        return False
    if before.kind == after.kind == "decimal":
        return before.scale == after.scale and before.precision <= after.precision
    return before.declared.promotes_to == after.kind


def render_change(change: FieldChange) -> str:
    match change.kind:
        case "add":
            return f"column {change.name} {change.after} added to the lake"
        case "drop":
            return f"column {change.name} dropped from the lake's schema"
        case "rename":
            return f"column {change.before} of the lake renamed to {change.after}"
        case "promote":
            return f"column {change.name} of the lake widened from {change.before} to {change.after}"


def iceberg_default(text: str, lake_type: str) -> bool | int | str:
    """A missing value from Postgres' text form in the form Iceberg's JSON has for defaults; times as microseconds."""
    match lake_type_named(lake_type).text_form:
        case "boolean":
            return text in ("t", "true")
        case "time":
            at = time.fromisoformat(text)
            return ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond
        case "hex":
            return text.removeprefix("\\x")
    return text
