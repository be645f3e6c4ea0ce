"""Resolve the tables of a statement as Postgres does for the client's role, at the statement's own snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from thermocline.core.axis import KeyType
from thermocline.core.modes.mode import mode_named
from thermocline.core.names import TableName
from thermocline.core.types import COLUMN_TYPES_BY_OID, LAKE_TYPES
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.sql.column_mapping import MappedTable
from thermocline.gateway.sql.expressions.sql_types import SqlType, column_sql_type
from thermocline.gateway.sql.query.scope import SourceColumn
from thermocline.gateway.sql.query.source_tables import Role, SourceTable, TableKey, Tiers
from thermocline.gateway.sql.syntax.token_checks import SUPPORTED_FUNCTIONS
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.postgres_snapshot import PostgresSnapshot
from thermocline.lake.read.table_metadata import LakeField
from thermocline.runtime.pg import load_queries

QUERIES = load_queries("thermocline.gateway", "queries/resolve_tables.sql")
MAX_PLAIN_ROWS = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _RelationRow:
    """A row of the query `relations`; what follows `table_id` is null unless the relation is a seam."""

    position: int
    oid: int
    schema: str
    name: str
    kind: str
    estimated_rows: float
    table_id: int | None
    heap_schema: str
    heap_name: str
    delta_name: str
    lake_namespace: str
    lake_name: str
    pk: list[str]
    tier_key: str
    key_type: str
    mode: str
    t: int
    s: int | None
    heap_oid: int | None
    field_ids: dict[str, int]

    @property
    def table_name(self) -> TableName:
        return TableName(self.schema, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnRow:
    """A row of the query `columns`."""

    relation_oid: int
    name: str
    position: int
    type_oid: int
    type_modifier: int
    is_c: bool
    is_deterministic: bool
    collation: int
    is_readable: bool


def read_source_tables(
    snapshot: PostgresSnapshot, role: Role, keys: Sequence[TableKey], catalog: CatalogReader
) -> dict[TableKey, SourceTable] | None:
    """The tables by their spelling; `None` when none of them spans, and then Postgres runs the statement."""
    schemas, names = [schema for schema, _ in keys], [name for _, name in keys]
    values = {"schemas": schemas, "names": names, "path": list(role.path), "role": role.name}
    relations = {row.position - 1: row for row in snapshot.read_rows(_RelationRow, QUERIES["relations"], values)}
    if not any(row.table_id is not None for row in relations.values()):
        return None
    for at in range(len(keys)):
        if at not in relations:
            raise NotProvable(f"table {names[at]} is not found")
    _check_row_security(relations.values(), catalog)
    _check_search_path(snapshot, role)
    columns: dict[int, list[_ColumnRow]] = {}
    values = {"relations": [row.oid for row in relations.values()], "role": role.name}
    for column in snapshot.read_rows(_ColumnRow, QUERIES["columns"], values):
        columns.setdefault(column.relation_oid, []).append(column)
    return {
        key: _source_table(relations[at], columns.get(relations[at].oid, []), catalog) for at, key in enumerate(keys)
    }


def _check_row_security(relations: Collection[_RelationRow], catalog: CatalogReader) -> None:
    """Raises where a table, or the heap behind a seam, has row-level security now; the statement's snapshot may be
    older than the change."""
    names = {relation.oid: relation.table_name for relation in relations}
    names |= {relation.heap_oid: relation.table_name for relation in relations if relation.heap_oid is not None}
    for oid in catalog.read_with_row_security(sorted(names)):
        raise NotProvable(f"{names[oid]} has row-level security")


def _check_search_path(snapshot: PostgresSnapshot, role: Role) -> None:
    """Raises where a function or operator of the session's own schemas could shadow one of pg_catalog."""
    path = [name for name in role.path if not name.startswith("pg_temp")]
    values = {"functions": sorted(SUPPORTED_FUNCTIONS), "path": list(role.path), "types": sorted(COLUMN_TYPES_BY_OID)}
    if path[:1] != ["pg_catalog"] or snapshot.read_value(QUERIES["shadowed"], values):
        raise NotProvable("functions or operators of the session's own may be meant")


def _source_table(relation: _RelationRow, columns: list[_ColumnRow], catalog: CatalogReader) -> SourceTable:
    name = relation.table_name
    readable = frozenset(column.name for column in columns if column.is_readable)
    if relation.table_id is None:
        _check_plain_table(relation, len(columns))
        return SourceTable(name=name, heap=name, columns=_columns(columns, None), readable=readable, tiers=None)
    if not mode_named(relation.mode).splits_reads_at_t:
        raise NotProvable(f"{name} is of mode {relation.mode}")
    lake = _read_lake(relation, catalog)
    tiers = Tiers(
        t=relation.t,
        s=relation.s,
        tier_key=relation.tier_key,
        key_type=KeyType(relation.key_type),
        pk=tuple(relation.pk),
        delta=TableName("thermocline_delta", relation.delta_name),
        mapped_table=lake,
    )
    heap = TableName(relation.heap_schema, relation.heap_name)
    return SourceTable(name=name, heap=heap, columns=_columns(columns, lake), readable=readable, tiers=tiers)


def _check_plain_table(relation: _RelationRow, column_count: int) -> None:
    """Raises for what is no table, and for a table that is too large to be copied into DuckDB."""
    if relation.kind not in ("r", "p"):
        raise NotProvable(f"{relation.table_name} is neither a table nor a seam")
    rows = relation.estimated_rows
    if rows * max(1, column_count) > MAX_PLAIN_ROWS * 10 or rows > MAX_PLAIN_ROWS:
        raise NotProvable(f"{relation.table_name} lies in Postgres alone, and is large")


def _read_lake(relation: _RelationRow, catalog: CatalogReader) -> MappedTable:
    """The lake table at the published snapshot; read again where the cached metadata is older."""
    lake = TableName(relation.lake_namespace, relation.lake_name)
    mapped_table = catalog.cached_table(lake)
    is_old = relation.s is not None and not mapped_table.lake_table.has_snapshot(relation.s)
    if is_old or not _has_field_ids(mapped_table, relation.field_ids):
        mapped_table = catalog.read_table(lake)
    if not _has_field_ids(mapped_table, relation.field_ids):
        raise NotProvable(f"the lake of {relation.table_name} has yet to follow a change of its columns")
    return mapped_table


def _has_field_ids(mapped_table: MappedTable, field_ids: dict[str, int]) -> bool:
    """Whether each column name has the field id it was registered with: a name may be reused, a field id is not."""
    held = {field.name: field.field_id for field in mapped_table.lake_table.fields}
    return all(held.get(column) == field_id for column, field_id in field_ids.items())


def _columns(columns: list[_ColumnRow], mapped_table: MappedTable | None) -> dict[str, SourceColumn]:
    return {column.name: _source_column(column, mapped_table) for column in columns}


def _source_column(column: _ColumnRow, mapped_table: MappedTable | None) -> SourceColumn:
    sql_type = column_sql_type(
        column.type_oid,
        column.type_modifier,
        is_c=column.is_c,
        is_deterministic=column.is_deterministic,
        collation=column.collation,
    )
    if mapped_table is None:
        return SourceColumn(name=column.name, position=column.position, sql_type=sql_type, field=None)
    mapped = mapped_table.columns.get(column.name)
    field = mapped.field if mapped is not None else None
    is_native = sql_type is not None and field is not None and _is_held_natively(sql_type, field)
    return SourceColumn(
        name=column.name, position=column.position, sql_type=sql_type if is_native else None, field=field
    )


def _is_held_natively(sql_type: SqlType, field: LakeField) -> bool:
    """Whether the lake holds the column in the type's own lake type, with the same digits."""
    if sql_type.family == "numeric":
        return field.kind == "decimal" and (field.precision, field.scale) == (sql_type.precision, sql_type.scale)
    own = sql_type.declared.lake.name
    return own == field.kind or (sql_type.is_integer and LAKE_TYPES[field.kind].promotes_to == own)
