"""Lakes without a registration: lakes that an unregistration kept and a registration may adopt, and directories to
delete.

A directory is listed as left over before its first file is written and before its last one is deleted. The transaction
that registers the table takes it off the list. So after a kill at any point, either a catalog or the list that the
janitor works off has the directory.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields
from typing import Any

from psycopg.types.json import Jsonb

from thermocline.core.axis import KeyType
from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/kept_lakes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPartition:
    """A partition of the heap at the time its table was unregistered; `is_whole` if the heap had every row of its
    range."""

    name: TableName
    relid: int
    lo: int
    hi: int
    is_dropped: bool
    is_whole: bool
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSettings:
    """The settings of the registration that left a lake."""

    mode: str
    tiering_lag: int
    reclaim_lag: int
    lake_retention: int | None
    partition_width: int | None
    premake: int
    seam_schema: str
    maintenance_policy: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLake:
    """A lake that an unregistration kept. It holds every row below T, except for later changes in the heap."""

    uuid: uuid.UUID
    namespace: str
    name: str
    location: str
    heap: TableName
    heap_oid: int
    pk: tuple[str, ...]
    tier_key: str
    key_type: KeyType
    lake_partition: str
    profile: str | None
    t: int
    s: int
    r: int | None
    columns: tuple[LakeColumn, ...]
    attnums: tuple[int, ...]
    partitions: tuple[PastPartition, ...]
    settings: KeptSettings | None = None
    """None where an earlier version left the lake."""


def keep_lake(conn: Connection, table_id: int) -> None:
    """Keep a table's lake, in the transaction that unregisters the table."""
    conn.execute(_QUERIES["keep"], {"table_id": table_id})


def find_kept(conn: Connection, namespace: str, name: str) -> KeptLake | None:
    row = rows_by_name(conn).execute(_QUERIES["kept"], {"namespace": namespace, "name": name}).fetchone()
    return _kept_lake(row) if row else None


def forget_kept(conn: Connection, lake_uuid: uuid.UUID) -> None:
    conn.execute(_QUERIES["forget"], {"uuid": lake_uuid})


def adopt_kept(
    conn: Connection,
    table_id: int,
    *,
    snapshot: int,
    r: int | None,
    past: tuple[PastPartition, ...],
) -> None:
    """Give a new registration the published state of the old one, in the transaction of the registration."""
    where: dict[str, Any] = {"table_id": table_id, "s": snapshot, "r": r}
    conn.execute(_QUERIES["adopt_cutline"], where)
    conn.execute(_QUERIES["adopt_snapshot"], where)
    for gone in past:
        place = {"schema": gone.name.schema, "name": gone.name.table, "lo": gone.lo, "hi": gone.hi}
        conn.execute(_QUERIES["adopt_partition"], where | place | {"rows": gone.rows})


def adopt_policy(conn: Connection, table_id: int, settings: KeptSettings) -> None:
    """Give a new registration the maintenance policy of the old one."""
    policy = Jsonb(settings.maintenance_policy)
    conn.execute(_QUERIES["adopt_policy"], {"table_id": table_id, "policy": policy})


def leave_location(conn: Connection, location: str) -> None:
    """List a directory as left over, to be deleted."""
    conn.execute(_QUERIES["leave"], {"location": location})


def take_location(conn: Connection, location: str) -> bool:
    """Take a directory off the list; False if it was not on it."""
    return conn.execute(_QUERIES["take"], {"location": location}).rowcount == 1


def read_leftovers(conn: Connection, grace_seconds: float) -> tuple[str, ...]:
    """Directories on the list, past the grace period."""
    rows = rows_by_name(conn).execute(_QUERIES["leftovers"], {"grace_seconds": grace_seconds})
    return tuple(row.location for row in rows)


def read_kept_locations(conn: Connection) -> tuple[str, ...]:
    """The locations of the lakes that unregistrations kept."""
    return tuple(row.lake_location for row in rows_by_name(conn).execute(_QUERIES["kept_locations"]))


def _kept_lake(row: Any) -> KeptLake:
    return KeptLake(
        uuid=row.lake_uuid,
        namespace=row.lake_namespace,
        name=row.lake_name,
        location=row.lake_location,
        heap=TableName(row.schema_name, row.table_name),
        heap_oid=row.heap_oid,
        pk=tuple(row.pk),
        tier_key=row.tier_key,
        key_type=KeyType(row.key_type),
        lake_partition=row.lake_partition,
        profile=row.profile,
        t=row.t,
        s=row.s,
        r=row.r,
        columns=tuple(
            LakeColumn(**{field.name: column[field.name] for field in fields(LakeColumn) if field.name in column})
            for column in row.columns
        ),
        attnums=tuple(column["attnum"] for column in row.columns),
        partitions=tuple(
            PastPartition(
                name=TableName(p["schema"], p["name"]),
                relid=p["relid"],
                lo=p["lo"],
                hi=p["hi"],
                is_dropped=p["is_dropped"],
                is_whole=p["is_whole"],
                rows=p["rows"],
            )
            for p in row.partitions
        ),
        settings=KeptSettings(**row.settings) if row.settings else None,
    )
