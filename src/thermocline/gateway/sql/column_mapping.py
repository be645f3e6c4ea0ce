"""Map the columns of a lake table to the types that Postgres declares for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from thermocline.core.names import TableName
from thermocline.core.types import COLUMN_TYPES, POSTGRES_TYPES, PrimitiveType, render_duckdb
from thermocline.lake.read.table_metadata import LakeField, LakeTable

SNAPSHOT_COLUMN = "_snapshot"
_SAME_TYPES: Mapping[str, frozenset[int]] = {
    kind: frozenset(
        found.oid
        for found in COLUMN_TYPES.values()
        if found.lake.name == kind or (found.is_integer and shown.is_integer)
    )
    for kind, shown in POSTGRES_TYPES.items()
}
"""The OIDs of Postgres whose values a lake type holds and compares as Postgres does; integers of any width are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredColumn:
    """A column of the foreign table, as Postgres has it."""

    name: str
    type_oid: int
    type_modifier: int
    type_name: str
    collation: tuple[str, str] | None
    collation_is_c: bool
    collation_is_deterministic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """One column. `equality` and `order` say whether DuckDB compares its values exactly as Postgres does."""

    name: str
    field: LakeField
    type_oid: int
    type_modifier: int
    type_name: str
    collation: tuple[str, str] | None
    equality: bool
    order: bool

    @property
    def sql(self) -> str:
        """Its name in DuckDB, made from the field id, so that no user-defined name enters the SQL text."""
        return f"c{self.field.field_id}"

    @property
    def duckdb_type(self) -> str:
        field = self.field
        return render_duckdb(PrimitiveType(kind=field.kind, precision=field.precision, scale=field.scale))


class ColumnsByName(Mapping[str, MappedColumn]):
    """The columns by the names that statements use: the foreign table's, which map to field ids, and the lake's own."""

    def __init__(self, columns: Iterable[MappedColumn]) -> None:
        self._by_name = {column.name: column for column in columns}
        self._by_any_name = {column.field.name: column for column in self._by_name.values()} | self._by_name

    def __getitem__(self, name: str) -> MappedColumn:
        return self._by_any_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_any_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedTable:
    """A lake table that the gateway can read."""

    name: TableName
    lake_table: LakeTable
    columns: Mapping[str, MappedColumn]


def map_column(field: LakeField, declared: DeclaredColumn | None) -> MappedColumn | None:
    """The column, or `None` when Postgres has no type for its lake type."""
    shown = POSTGRES_TYPES.get(field.kind)
    if shown is None:
        return None
    is_text = shown.lake.order == "collation"
    if declared is None:
        # The modifier of numeric packs precision and scale.
        modifier = ((field.precision << 16) | field.scale) + 4 if shown.lake.parameters else -1
        return MappedColumn(
            name=field.name,
            field=field,
            type_oid=shown.oid,
            type_modifier=modifier,
            type_name=f"{shown.name}({field.precision},{field.scale})" if shown.lake.parameters else shown.name,
            collation=None,
            equality=True,
            order=not is_text,
        )
    same_type = declared.type_oid in _SAME_TYPES[field.kind]
    return MappedColumn(
        name=declared.name,
        field=field,
        type_oid=declared.type_oid,
        type_modifier=declared.type_modifier,
        type_name=declared.type_name,
        collation=declared.collation,
        equality=same_type and (not is_text or declared.collation_is_deterministic),
        order=same_type and (not is_text or declared.collation_is_c),
    )
