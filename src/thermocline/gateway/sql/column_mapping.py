"""What the gateway knows of a table when it judges a statement: lake columns joined with the types Postgres declared
for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from thermocline.core.names import TableName
from thermocline.lake.read.table_metadata import LakeField, LakeTable

SNAPSHOT_COLUMN = "_snapshot"

_DUCKDB = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "uuid": "UUID",
    "binary": "BLOB",
    "string": "VARCHAR",
}

_PLAIN_TYPES: Mapping[str, tuple[int, int, str]] = {
    "boolean": (16, 1, "boolean"),
    "int": (23, 4, "integer"),
    "long": (20, 8, "bigint"),
    "float": (700, 4, "real"),
    "double": (701, 8, "double precision"),
    "date": (1082, 4, "date"),
    "time": (1083, 8, "time without time zone"),
    "timestamp": (1114, 8, "timestamp without time zone"),
    "timestamptz": (1184, 8, "timestamp with time zone"),
    "uuid": (2950, 16, "uuid"),
    "binary": (17, -1, "bytea"),
    "string": (25, -1, "text"),
    "decimal": (1700, -1, "numeric"),
}

TYPE_SIZES: Mapping[int, int] = {oid: size for oid, size, _ in _PLAIN_TYPES.values()} | {21: 2}


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
    """One column. `equality` and `order` say whether DuckDB's comparison is Postgres' comparison, bit for bit."""

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
        """Its name in DuckDB: made from the field id, so a user's name never enters the text."""
        return f"c{self.field.field_id}"

    @property
    def duckdb_type(self) -> str:
        if self.field.kind == "decimal":
            return f"DECIMAL({self.field.precision}, {self.field.scale})"
        return _DUCKDB[self.field.kind]


class ColumnsByName(Mapping[str, MappedColumn]):
    """The columns by the names statements use: the foreign table's, which may stand for a field by its number, and the
    lake's own."""

    def __init__(self, columns: Iterable[MappedColumn]) -> None:
        self._named = {column.name: column for column in columns}
        self._known = {column.field.name: column for column in self._named.values()} | self._named

    def __getitem__(self, name: str) -> MappedColumn:
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedTable:
    """A lake table the gateway can answer for."""

    name: TableName
    lake_table: LakeTable
    columns: Mapping[str, MappedColumn]


def map_column(field: LakeField, declared: DeclaredColumn | None) -> MappedColumn | None:
    """The column, or `None` when its lake type has no place in Postgres."""
    plain = _PLAIN_TYPES.get(field.kind)
    if plain is None:
        return None
    oid, _, type_name = plain
    # decimal's modifier is Postgres' own packing of precision and scale.
    modifier = ((field.precision << 16) | field.scale) + 4 if field.kind == "decimal" else -1
    if declared is None:
        return MappedColumn(
            name=field.name,
            field=field,
            type_oid=oid,
            type_modifier=modifier,
            type_name=type_name if field.kind != "decimal" else f"numeric({field.precision},{field.scale})",
            collation=None,
            equality=True,
            order=field.kind != "string",
        )
    is_text = field.kind == "string"
    same_type = declared.type_oid in (
        (25, 1043) if is_text else (20, 21, 23) if field.kind in ("int", "long") else (oid,)
    )
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
