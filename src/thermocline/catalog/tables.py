"""Registered tables: what was agreed at registration, and the rows that hold it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from thermocline.catalog.migrate import check_version_known, read_version
from thermocline.core.axis import KeyType
from thermocline.core.columns import LakeColumn
from thermocline.core.modes.mode import Mode
from thermocline.core.modes.options import choose_mode
from thermocline.core.names import TableName
from thermocline.errors import NotRegistered
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/tables.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A registration about to be written."""

    name: TableName
    heap_oid: int
    mode: Mode
    pk: tuple[str, ...]
    tier_key: str
    key_type: KeyType
    tiering_lag: int
    reclaim_lag: int
    lake_partition: str
    lake_namespace: str
    lake_name: str
    lake_uuid: uuid.UUID
    lake_location: str
    seam_schema: str
    object_name: str
    spill: TableName
    lake_retention: int | None = None
    partition_width: int | None = None
    premake: int = 2
    profile: str | None = None
    lake_until: int | None = None

    @property
    def lake(self) -> TableName:
        """The lake table's name in its Iceberg catalog."""
        return TableName(self.lake_namespace, self.lake_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTable(NewTable):
    """A registration as the catalog holds it."""

    id: int
    columns: tuple[LakeColumn, ...]
    attnums: tuple[int, ...]

    @property
    def lake_identifier(self) -> str:
        return f"{self.lake_namespace}.{self.lake_name}"


def read_table(conn: Connection, name: TableName) -> RegisteredTable | None:
    row = conn.execute(_QUERIES["table_by_name"], {"schema": name.schema, "table": name.table}).fetchone()
    return _table(conn, row) if row else None


def find_table(conn: Connection, name: TableName) -> RegisteredTable:
    """The registration, or a refusal that says how to make one."""
    if conn.execute("select to_regclass('thermocline.tables') is null").fetchone() == (True,):
        raise NotRegistered(
            f"{name} is not registered; this database has no Thermocline catalog yet.",
            hint="Run `thermocline init` first.",
        )
    check_version_known(read_version(conn))
    if (found := read_table(conn, name)) is None:
        raise NotRegistered(f"{name} is not registered.")
    return found


def read_tables(conn: Connection) -> tuple[RegisteredTable, ...]:
    return tuple(_table(conn, row) for row in conn.execute(_QUERIES["all_tables"]).fetchall())


def insert_table(
    conn: Connection, table: NewTable, columns: tuple[LakeColumn, ...], attnums: tuple[int, ...], t: int
) -> int:
    """Write the registration with its columns and cut-line; returns the table's id."""
    row = conn.execute(
        _QUERIES["insert_table"],
        {
            "schema": table.name.schema,
            "table": table.name.table,
            "heap_oid": table.heap_oid,
            "mode": table.mode.option,
            "pk": list(table.pk),
            "tier_key": table.tier_key,
            "key_type": table.key_type.value,
            "tiering_lag": table.tiering_lag,
            "reclaim_lag": table.reclaim_lag,
            "lake_partition": table.lake_partition,
            "lake_namespace": table.lake_namespace,
            "lake_name": table.lake_name,
            "lake_uuid": table.lake_uuid,
            "lake_location": table.lake_location,
            "seam_schema": table.seam_schema,
            "object_name": table.object_name,
            "spill_schema": table.spill.schema,
            "spill_name": table.spill.table,
            "keep_heap": table.mode.with_keep_heap,
            "lake_retention": table.lake_retention,
            "partition_width": table.partition_width,
            "premake": table.premake,
            "profile": table.profile,
            "lake_until": table.lake_until,
        },
    ).fetchone()
    assert row is not None
    table_id = int(row[0])
    for position, (column, attnum) in enumerate(zip(columns, attnums, strict=True), 1):
        conn.execute(
            _QUERIES["insert_column"],
            {
                "table_id": table_id,
                "position": position,
                "name": column.name,
                "attnum": attnum,
                "base_type": column.base_type,
                "pg_type": column.pg_type,
                "lake_type": column.lake_type,
                "form": column.form,
                "field_id": column.field_id,
                "required": column.required,
                "missing": column.missing,
            },
        )
    conn.execute(_QUERIES["insert_cutline"], {"table_id": table_id, "t": t})
    return table_id


def delete_table(conn: Connection, table_id: int) -> None:
    conn.execute(_QUERIES["delete_table"], {"table_id": table_id})


def insert_event(conn: Connection, table_id: int | None, action: str, sentence: str) -> None:
    conn.execute(_QUERIES["insert_event"], {"table_id": table_id, "action": action, "sentence": sentence})


def _table(conn: Connection, row: tuple[Any, ...]) -> RegisteredTable:
    columns, attnums = [], []
    for name, attnum, base_type, pg_type, lake_type, form, *lake in conn.execute(
        _QUERIES["columns"], {"table_id": row[0]}
    ):
        field_id, required, missing = lake
        columns.append(
            LakeColumn(
                name=name,
                field_id=field_id,
                base_type=base_type,
                pg_type=pg_type,
                lake_type=lake_type,
                form=form,
                required=required,
                missing=missing,
            )
        )
        attnums.append(attnum)
    (id_, schema, table, heap_oid, mode, pk, tier_key, key_type, tiering_lag, reclaim_lag, lake_partition, *rest) = row
    lake_namespace, lake_name, lake_uuid, lake_location, seam_schema, object_name, spill_schema, spill_name, *modes = (
        rest
    )
    keep_heap, lake_retention, partition_width, premake, profile, lake_until = modes
    return RegisteredTable(
        id=id_,
        name=TableName(schema, table),
        heap_oid=heap_oid,
        mode=choose_mode(mode, keep_heap=keep_heap),
        pk=tuple(pk),
        tier_key=tier_key,
        key_type=KeyType(key_type),
        tiering_lag=tiering_lag,
        reclaim_lag=reclaim_lag,
        lake_partition=lake_partition,
        lake_namespace=lake_namespace,
        lake_name=lake_name,
        lake_uuid=lake_uuid,
        lake_location=lake_location,
        seam_schema=seam_schema,
        object_name=object_name,
        spill=TableName(spill_schema, spill_name),
        lake_retention=lake_retention,
        partition_width=partition_width,
        premake=premake,
        profile=profile,
        lake_until=lake_until,
        columns=tuple(columns),
        attnums=tuple(attnums),
    )
