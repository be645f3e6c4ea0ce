"""Iceberg tables under maintenance that are no tier of a Postgres table, and the list of all that are maintained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from thermocline.catalog.safety import Owner
from thermocline.core.names import LAKE_CATALOG, TableName
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/lake_tables.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTableEntry:
    """One table that was added by itself; `name` is its namespace and name in the Iceberg catalog."""

    id: int
    name: TableName
    added_at: datetime
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """One table whose lake is looked after. `heap` is the Postgres table it is a tier of; no metadata when the catalog
    lost it."""

    owner: Owner
    lake: TableName
    heap: TableName | None
    metadata_location: str | None
    previous_location: str | None
    """The metadata file before that one, as the catalog's row names it."""
    format: str

    @property
    def label(self) -> str:
        return str(self.heap or self.lake)


def _where(name: TableName) -> dict[str, object]:
    return {"catalog": LAKE_CATALOG, "namespace": name.schema, "name": name.table}


def add_lake_table(conn: Connection, name: TableName, format: str = "iceberg") -> bool:
    """Whether it is new in the list."""
    return conn.execute(_QUERIES["add"], {**_where(name), "format": format}).rowcount == 1


def note_format(conn: Connection, format: str, operations: Sequence[str]) -> None:
    """The catalog lists the operations of every format that tables have, in their order."""
    conn.execute(_QUERIES["note_format"], {"format": format, "operations": list(operations)})


def read_lake_table_entry(conn: Connection, name: TableName) -> LakeTableEntry | None:
    row = rows_by_name(conn).execute(_QUERIES["by_name"], _where(name)).fetchone()
    return _entry(row) if row else None


def read_lake_table_by_id(conn: Connection, lake_id: int) -> LakeTableEntry | None:
    row = rows_by_name(conn).execute(_QUERIES["by_id"], {"lake_id": lake_id}).fetchone()
    return _entry(row) if row else None


def read_lake_table_entries(conn: Connection) -> tuple[LakeTableEntry, ...]:
    return tuple(_entry(row) for row in rows_by_name(conn).execute(_QUERIES["all"]))


def _entry(row: Any) -> LakeTableEntry:
    name = TableName(row.namespace, row.name)
    return LakeTableEntry(id=row.id, name=name, added_at=row.added_at, format=row.format)


def remove_lake_table(conn: Connection, lake_id: int) -> None:
    conn.execute(_QUERIES["remove"], {"lake_id": lake_id})


def read_heap_of(conn: Connection, name: TableName) -> TableName | None:
    """The registered table that a lake table is a tier of."""
    row = rows_by_name(conn).execute(_QUERIES["is_registered"], _where(name)).fetchone()
    return TableName(row.schema_name, row.table_name) if row else None


def read_maintained(conn: Connection) -> tuple[Maintained, ...]:
    """Registered and added tables in one list."""
    return tuple(
        Maintained(
            owner=Owner(table_id=row.table_id, lake_id=row.lake_id),
            lake=TableName(row.namespace, row.name),
            heap=TableName(row.schema_name, row.table_name) if row.schema_name is not None else None,
            metadata_location=row.metadata_location,
            previous_location=row.previous_metadata_location,
            format=row.format,
        )
        for row in rows_by_name(conn).execute(_QUERIES["maintained"])
    )
