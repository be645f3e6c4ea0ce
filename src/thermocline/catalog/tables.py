"""Registered tables and their columns."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from thermocline.catalog.migrate import check_version_current
from thermocline.core.axis import KeyType
from thermocline.core.columns import LakeColumn
from thermocline.core.messages.nearest import render_nearest
from thermocline.core.modes.mode import Mode, mode_named
from thermocline.core.modes.table_settings import TableSettings
from thermocline.core.names import TableName
from thermocline.errors import NotRegistered
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/tables.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A registration before it has an id."""

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
    is_started: bool = False
    """Partitions move, leave the heap and expire by themselves."""

    @property
    def lake(self) -> TableName:
        """The lake table's name in its Iceberg catalog."""
        return TableName(self.lake_namespace, self.lake_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTable(NewTable):
    """A registration in the catalog."""

    id: int
    columns: tuple[LakeColumn, ...]
    attnums: tuple[int, ...]
    started_at: datetime | None = None

    @property
    def settings(self) -> TableSettings:
        return TableSettings(
            tiering_lag=self.tiering_lag,
            reclaim_lag=self.reclaim_lag,
            lake_retention=self.lake_retention,
            premake=self.premake,
        )

    @property
    def lake_identifier(self) -> str:
        return f"{self.lake_namespace}.{self.lake_name}"


def read_table(conn: Connection, name: TableName) -> RegisteredTable | None:
    check_version_current(conn)
    row = rows_by_name(conn).execute(_QUERIES["table_by_name"], {"schema": name.schema, "table": name.table}).fetchone()
    return _read_registration(conn, row) if row else None


def find_table(conn: Connection, name: TableName) -> RegisteredTable:
    """The registration; refuses a table without one and says how to register it."""
    if conn.execute("select to_regclass('thermocline.tables') is null").fetchone() == (True,):
        raise NotRegistered(
            f"{name} is not registered; this database has no Thermocline catalog yet.",
            hint="Run `thermocline init` first.",
        )
    if (found := read_table(conn, name)) is None:
        nearest = render_nearest(str(name), [str(one.name) for one in read_tables(conn)], otherwise=NotRegistered.hint)
        raise NotRegistered(f"{name} is not registered.", hint=nearest)
    return found


def read_tables(conn: Connection) -> tuple[RegisteredTable, ...]:
    check_version_current(conn)
    rows = rows_by_name(conn).execute(_QUERIES["all_tables"]).fetchall()
    return tuple(_read_registration(conn, row) for row in rows)


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
            "mode": table.mode.name,
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
            "lake_retention": table.lake_retention,
            "partition_width": table.partition_width,
            "premake": table.premake,
            "profile": table.profile,
            "lake_until": table.lake_until,
            "is_started": table.is_started,
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


def start_table(conn: Connection, table_id: int) -> bool:
    """Let partitions move by themselves; False when they did already."""
    return conn.execute(_QUERIES["start"], {"table_id": table_id}).rowcount == 1


def stop_table(conn: Connection, table_id: int) -> bool:
    """Let partitions move only by hand; False when they did already."""
    return conn.execute(_QUERIES["stop"], {"table_id": table_id}).rowcount == 1


def is_started(conn: Connection, table_id: int) -> bool:
    """Whether partitions move by themselves now; not of a table that was unregistered."""
    return conn.execute(_QUERIES["is_started"], {"table_id": table_id}).fetchone() == (True,)


def read_reclaim_lag(conn: Connection, table_id: int) -> int | None:
    row = conn.execute(_QUERIES["reclaim_lag"], {"table_id": table_id}).fetchone()
    return None if row is None else int(row[0])


def read_not_started(conn: Connection) -> tuple[str, ...]:
    """The names of the tables that move nothing by themselves."""
    return tuple(row.name for row in rows_by_name(conn).execute(_QUERIES["not_started"]))


def change_settings(conn: Connection, table_id: int, requested: TableSettings) -> None:
    conn.execute(_QUERIES["change_settings"], {"table_id": table_id, **asdict(requested)})


def insert_event(conn: Connection, table_id: int | None, action: str, sentence: str) -> None:
    conn.execute(_QUERIES["insert_event"], {"table_id": table_id, "action": action, "sentence": sentence})


def _read_registration(conn: Connection, row: Any) -> RegisteredTable:
    """The registration of a row of thermocline.tables, with its columns."""
    columns = rows_by_name(conn).execute(_QUERIES["columns"], {"table_id": row.id}).fetchall()
    return RegisteredTable(
        id=row.id,
        name=TableName(row.schema_name, row.table_name),
        heap_oid=row.heap_oid,
        mode=mode_named(row.mode),
        pk=tuple(row.pk),
        tier_key=row.tier_key,
        key_type=KeyType(row.key_type),
        tiering_lag=row.tiering_lag,
        reclaim_lag=row.reclaim_lag,
        lake_partition=row.lake_partition,
        lake_namespace=row.lake_namespace,
        lake_name=row.lake_name,
        lake_uuid=row.lake_uuid,
        lake_location=row.lake_location,
        seam_schema=row.seam_schema,
        object_name=row.object_name,
        spill=TableName(row.spill_schema, row.spill_name),
        lake_retention=row.lake_retention,
        partition_width=row.partition_width,
        premake=row.premake,
        profile=row.profile,
        lake_until=row.lake_until,
        is_started=row.started_at is not None,
        started_at=row.started_at,
        columns=tuple(
            LakeColumn(
                name=column.name,
                field_id=column.field_id,
                base_type=column.base_type,
                pg_type=column.pg_type,
                lake_type=column.lake_type,
                form=column.form,
                required=column.required,
                missing=column.missing,
            )
            for column in columns
        ),
        attnums=tuple(column.attnum for column in columns),
    )
