"""Lakes without a registration: those that an unregistration left to be taken up again, and directories that nobody
needs any more.

A directory is listed as left over before its first file is written and before its last one is deleted; the transaction
that makes the table known takes it off the list. So whatever is killed, either a catalog knows the directory or the
janitor does.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields
from typing import Any

from thermocline.core.axis import KeyType
from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/kept_lakes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPartition:
    """A partition of the heap as it was when its table was unregistered; `is_whole` when the heap had every row of its
    range."""

    name: TableName
    relid: int
    lo: int
    hi: int
    is_dropped: bool
    is_whole: bool
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLake:
    """A lake that an unregistration left: the lake holds every row below T, as far as the heap did not change it
    since."""

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


def keep_lake(conn: Connection, table_id: int) -> None:
    """Remember a table's lake, in the transaction that forgets the table."""
    conn.execute(_QUERIES["keep"], {"table_id": table_id})


def find_kept(conn: Connection, namespace: str, name: str) -> KeptLake | None:
    row = conn.execute(_QUERIES["kept"], {"namespace": namespace, "name": name}).fetchone()
    return _kept(row) if row else None


def forget_kept(conn: Connection, lake_uuid: uuid.UUID) -> None:
    conn.execute(_QUERIES["forget"], {"uuid": lake_uuid})


def adopt_kept(
    conn: Connection, table_id: int, *, snapshot: int, r: int | None, past: tuple[PastPartition, ...]
) -> None:
    """Give a new registration what the old one had published, in the registration's transaction."""
    where: dict[str, Any] = {"table_id": table_id, "s": snapshot, "r": r}
    conn.execute(_QUERIES["adopt_cutline"], where)
    conn.execute(_QUERIES["adopt_snapshot"], where)
    for gone in past:
        place = {"schema": gone.name.schema, "name": gone.name.table, "lo": gone.lo, "hi": gone.hi}
        conn.execute(_QUERIES["adopt_partition"], where | place | {"rows": gone.rows})


def leave_location(conn: Connection, location: str) -> None:
    """List a directory as left over."""
    conn.execute(_QUERIES["leave"], {"location": location})


def take_location(conn: Connection, location: str) -> bool:
    """Take a directory off the list; whether it was still on it."""
    return conn.execute(_QUERIES["take"], {"location": location}).rowcount == 1


def read_leftovers(conn: Connection, grace_seconds: float) -> tuple[str, ...]:
    """Directories that no catalog knows, past the grace period."""
    return tuple(row[0] for row in conn.execute(_QUERIES["leftovers"], {"grace_seconds": grace_seconds}))


def read_kept_locations(conn: Connection) -> tuple[str, ...]:
    """Where the lakes are that an unregistration left."""
    return tuple(row[0] for row in conn.execute(_QUERIES["kept_locations"]))


def _kept(row: tuple[Any, ...]) -> KeptLake:
    columns = row[15]
    return KeptLake(
        uuid=row[0],
        namespace=row[1],
        name=row[2],
        location=row[3],
        heap=TableName(row[4], row[5]),
        heap_oid=row[6],
        pk=tuple(row[7]),
        tier_key=row[8],
        key_type=KeyType(row[9]),
        lake_partition=row[10],
        profile=row[11],
        t=row[12],
        s=row[13],
        r=row[14],
        columns=tuple(
            LakeColumn(**{field.name: column[field.name] for field in fields(LakeColumn) if field.name in column})
            for column in columns
        ),
        attnums=tuple(column["attnum"] for column in columns),
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
            for p in row[16]
        ),
    )
