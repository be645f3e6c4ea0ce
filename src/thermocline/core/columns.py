"""Columns of a table, as Postgres describes them and as the lake holds them.

Which lake type holds a Postgres type is declared in `core/types.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from thermocline.core.types import (
    COLUMN_TYPES,
    MAX_DECIMAL_PRECISION,
    Form,
    PrimitiveType,
    is_unfaithful,
    lake_type_named,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapColumn:
    """A column as Postgres describes it.

    `base_type` is pg_type.typname, qualified where the type is not Postgres' own; `pg_type` is format_type() with its
    modifier; `made_of` are the built-in types inside it: a domain's base, an array's elements, a composite's
    attributes.
    """

    name: str
    attnum: int
    base_type: str
    pg_type: str
    not_null: bool
    made_of: tuple[str, ...] = ()
    numeric_precision: int | None = None
    numeric_scale: int | None = None
    collation: str | None = None
    collation_is_c: bool = True
    default: str | None = None
    identity: Literal["", "a", "d"] = ""
    identity_sequence: str | None = None
    generated: bool = False
    is_virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeColumn:
    """The same column in the lake. `required` columns are the primary key's; `missing` is what files written before the
    column was added read as, in Postgres' text form."""

    name: str
    field_id: int
    base_type: str
    pg_type: str
    lake_type: str
    form: Form
    required: bool
    missing: str | None = None


def why_not_held(column: HeapColumn) -> str | None:
    """The reason this column's values have no faithful form in the lake, or `None`."""
    if any(is_unfaithful(name) for name in (column.base_type, *column.made_of)):
        return f"column {column.name} has type {column.pg_type}, whose text form does not read back the same everywhere"
    return None


def lake_type_of(column: HeapColumn) -> tuple[str, Form]:
    """Iceberg's type for a Postgres column, and the form its values take."""
    declared = COLUMN_TYPES.get(column.base_type)
    if declared is None:
        return "string", "text"
    if not declared.lake.parameters:
        return declared.lake.name, "native"
    precision, scale = column.numeric_precision, column.numeric_scale
    if precision is None or scale is None or precision > MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        return "string", "text"
    return str(PrimitiveType(kind=declared.lake.name, precision=precision, scale=scale)), "native"


def plan_lake_columns(columns: tuple[HeapColumn, ...], key: tuple[str, ...]) -> tuple[LakeColumn, ...]:
    """The lake's columns in the heap's order, with field ids counted from one."""
    planned = []
    for field_id, column in enumerate(columns, 1):
        lake_type, form = lake_type_of(column)
        planned.append(
            LakeColumn(
                name=column.name,
                field_id=field_id,
                base_type=column.base_type,
                pg_type=column.pg_type,
                lake_type=lake_type,
                form=form,
                required=column.name in key,
            )
        )
    return tuple(planned)


def identifier_fields(columns: Sequence[LakeColumn]) -> list[int]:
    """The key's field ids for Iceberg's schema: none where a key column is a float, which Iceberg does not take."""
    key = [column for column in columns if column.required]
    return [] if any(lake_type_named(column.lake_type).is_float for column in key) else [c.field_id for c in key]
