"""The tables a statement names, as Postgres resolves them for the client's role, at the statement's own snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thermocline.core.axis import KeyType
from thermocline.core.modes.mode import mode_named
from thermocline.core.names import TableName
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.sql.column_mapping import MappedTable
from thermocline.gateway.sql.query.scope import SourceColumn
from thermocline.gateway.sql.query.source_tables import Role, SourceTable, TableKey, Tiers
from thermocline.gateway.sql.query.sql_types import LAKE_TYPES, SqlType, column_sql_type
from thermocline.gateway.sql.query.token_checks import SUPPORTED_FUNCTIONS
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.postgres_snapshot import PostgresSnapshot
from thermocline.runtime.pg import load_queries

QUERIES = load_queries("thermocline.gateway", "queries/resolve_tables.sql")
MAX_PLAIN_ROWS = 5_000_000
_TYPES = (16, 17, 20, 21, 23, 25, 700, 701, 1043, 1082, 1083, 1114, 1184, 1700, 2950)


def read_source_tables(
    snapshot: PostgresSnapshot, role: Role, keys: Sequence[TableKey], directory: CatalogReader
) -> dict[TableKey, SourceTable] | None:
    """The tables by their spelling; `None` when none of them spans, and then the statement is not ours."""
    schemas, names = [schema for schema, _ in keys], [name for _, name in keys]
    values = {"schemas": schemas, "names": names, "path": list(role.path), "role": role.name}
    relations = {row[0] - 1: row for row in snapshot.rows(QUERIES["relations"], values)}
    if not any(row[8] is not None for row in relations.values()):
        return None
    for at in range(len(keys)):
        if at not in relations:
            raise NotProvable(f"table {names[at]} is not found")
    path = [name for name in role.path if not name.startswith("pg_temp")]
    if path[:1] != ["pg_catalog"] or snapshot.rows(
        QUERIES["shadowed"], {"functions": sorted(SUPPORTED_FUNCTIONS), "path": list(role.path), "types": list(_TYPES)}
    ) != [(False,)]:
        raise NotProvable("functions or operators of the session's own may be meant")
    columns: dict[int, list[tuple[Any, ...]]] = {}
    for row in snapshot.rows(
        QUERIES["columns"], {"relations": [row[1] for row in relations.values()], "role": role.name}
    ):
        columns.setdefault(row[0], []).append(row)
    return {key: _source(relations[at], columns.get(relations[at][1], []), directory) for at, key in enumerate(keys)}


def _source(row: tuple[Any, ...], columns: list[tuple[Any, ...]], directory: CatalogReader) -> SourceTable:
    name = TableName(row[2], row[3])
    if row[5] or row[20]:
        raise NotProvable(f"{name} has row-level security")
    if row[8] is None:
        if row[4] not in ("r", "p"):
            raise NotProvable(f"{name} is neither a table nor a seam")
        if row[6] * max(1, len(columns)) > MAX_PLAIN_ROWS * 10 or row[6] > MAX_PLAIN_ROWS:
            raise NotProvable(f"{name} lies in Postgres alone, and is large")
        return SourceTable(
            name=name, heap=name, columns=_columns(columns, None), readable=_readable(columns), tiers=None
        )
    if not mode_named(row[17]).splits_reads_at_t:
        raise NotProvable(f"{name} is of mode {row[17]}")
    lake, s = TableName(row[12], row[13]), row[19]
    facts = directory.facts(lake)
    if (s is not None and not facts.table.has_snapshot(s)) or not _has_field_ids(facts, row[21]):
        facts = directory.read_facts(lake)
    if not _has_field_ids(facts, row[21]):
        raise NotProvable(f"the lake of {name} has yet to follow a change of its columns")
    tiers = Tiers(
        t=row[18],
        s=s,
        tier_key=row[15],
        key_type=KeyType(row[16]),
        pk=tuple(row[14]),
        delta=TableName("thermocline_delta", row[11]),
        facts=facts,
    )
    return SourceTable(
        name=name,
        heap=TableName(row[9], row[10]),
        columns=_columns(columns, facts),
        readable=_readable(columns),
        tiers=tiers,
    )


def _has_field_ids(facts: MappedTable, numbers: dict[str, int]) -> bool:
    """Whether every column is, under its name, the field it was registered as: names change hands, numbers never do."""
    held = {field.name: field.field_id for field in facts.table.fields}
    return all(held.get(column) == number for column, number in numbers.items())


def _readable(columns: list[tuple[Any, ...]]) -> frozenset[str]:
    return frozenset(row[1] for row in columns if row[8])


def _columns(rows: list[tuple[Any, ...]], facts: MappedTable | None) -> dict[str, SourceColumn]:
    return {row[1]: _column(row, facts) for row in rows}


def _column(row: tuple[Any, ...], facts: MappedTable | None) -> SourceColumn:
    _, name, position, oid, modifier, is_c, is_deterministic, collation, _ = row
    sql_type = column_sql_type(oid, modifier, is_c=is_c, is_deterministic=is_deterministic, collation=collation)
    if facts is None:
        return SourceColumn(name=name, position=position, sql_type=sql_type, field=None)
    known = facts.columns.get(name)
    field = known.field if known is not None else None
    if sql_type is None or field is None or not _is_held_natively(sql_type, field.kind, field.precision, field.scale):
        return SourceColumn(name=name, position=position, sql_type=None, field=field)
    return SourceColumn(name=name, position=position, sql_type=sql_type, field=field)


def _is_held_natively(sql_type: SqlType, lake: str, precision: int, scale: int) -> bool:
    """Whether the lake holds the column natively, with the same digits."""
    if sql_type.family == "numeric":
        return lake == "decimal" and (precision, scale) == (sql_type.precision, sql_type.scale)
    return LAKE_TYPES[sql_type.family] == lake or (sql_type.family == "int8" and lake == "int")
