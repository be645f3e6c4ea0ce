"""How each Postgres column is held in the lake.

A type with an exact Iceberg twin is stored natively; every other type is stored in Postgres' own text form and cast
back by the seam. Nothing is ever stored as a lossy approximation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Form = Literal["native", "text"]

_NATIVE = {
    "bool": "boolean",
    "int2": "int",
    "int4": "int",
    "int8": "long",
    "float4": "float",
    "float8": "double",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "uuid": "uuid",
    "bytea": "binary",
    "text": "string",
    "varchar": "string",
}

_UNFAITHFUL = re.compile(
    r"_?(money|reg[a-z]+|aclitem|gtsvector|pg_node_tree|pg_[a-z_]*stat[a-z_]*|pg_ndistinct|pg_dependencies|pg_mcv_list|pg_brin_[a-z_]+|"
    r"refcursor|cstring|record|void|unknown)"
)

MAX_DECIMAL_PRECISION = 38


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
    if any(_UNFAITHFUL.fullmatch(name) for name in (column.base_type, *column.made_of)):
        return f"column {column.name} has type {column.pg_type}, whose text form does not read back the same everywhere"
    return None


def lake_type_of(column: HeapColumn) -> tuple[str, Form]:
    """Iceberg's type for a Postgres column, and the form its values take."""
    if column.base_type == "numeric":
        precision, scale = column.numeric_precision, column.numeric_scale
        if (
            precision is not None
            and scale is not None
            and precision <= MAX_DECIMAL_PRECISION
            and 0 <= scale <= precision
        ):
            return f"decimal({precision}, {scale})", "native"
        return "string", "text"
    native = _NATIVE.get(column.base_type)
    return (native, "native") if native else ("string", "text")


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
    """The key as Iceberg is told of it. It takes no floating point numbers, and a part of a key would be none."""
    key = [column for column in columns if column.required]
    return [] if any(column.lake_type in ("float", "double") for column in key) else [column.field_id for column in key]
