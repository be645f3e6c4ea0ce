"""Storage profiles: named warehouses for lake tables, and the warehouse of tables without one."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from thermocline.core.messages.nearest import render_nearest
from thermocline.errors import ProfileInUse, ProfileTaken, UnknownProfile
from thermocline.runtime.locations import location_of
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/profiles.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageProfile:
    """A named warehouse, and how many registered tables have their lake in it."""

    name: str
    warehouse: str
    is_default: bool
    tables: int = 0


def read_profiles(conn: Connection) -> tuple[StorageProfile, ...]:
    return tuple(conn.cursor(row_factory=class_row(StorageProfile)).execute(_QUERIES["profiles"]))


def find_profile(conn: Connection, name: str | None) -> StorageProfile | None:
    """The profile of this name, or the default one if no name is given; None if there is no default."""
    profile = conn.cursor(row_factory=class_row(StorageProfile)).execute(_QUERIES["profile"], {"name": name}).fetchone()
    if profile is None and name is not None:
        raise _unknown_profile(conn, name)
    return profile


def _unknown_profile(conn: Connection, name: str) -> UnknownProfile:
    return UnknownProfile(
        f"There is no storage profile {name}.",
        hint=render_nearest(name, [other.name for other in read_profiles(conn)], otherwise=UnknownProfile.hint),
    )


def delete_profile(conn: Connection, name: str) -> StorageProfile:
    """Delete a profile; refused while a table, or a lake that an unregistration kept, is in it."""
    with conn.transaction():
        profile = conn.cursor(row_factory=class_row(StorageProfile)).execute(_QUERIES["lock"], [name]).fetchone()
        if profile is None:
            raise _unknown_profile(conn, name)
        users = [str(row[0]) for row in conn.execute(_QUERIES["users"], {"name": name})]
        if users:
            raise ProfileInUse(f"The storage profile {name} holds the lakes of {', '.join(users)}.")
        conn.execute(_QUERIES["delete"], {"name": name})
    return profile


def insert_profile(conn: Connection, profile: StorageProfile) -> None:
    """Write a profile. Writing it again may change the default, never the warehouse: tables are in it."""
    values = {"name": profile.name, "warehouse": profile.warehouse, "is_default": profile.is_default}
    with conn.transaction():
        conn.execute(_QUERIES["no_default"], values)
        if conn.execute(_QUERIES["insert_profile"], values).fetchone() is None:
            raise ProfileTaken(f"There is a storage profile {profile.name} already, with another warehouse.")


def read_default_warehouse(conn: Connection) -> str | None:
    """The location; None where none was recorded, or the catalog is not there or has not been upgraded yet."""
    if conn.execute("select to_regclass('thermocline.default_warehouse') is null").fetchone() == (True,):
        return None
    row = conn.execute(_QUERIES["default_warehouse"]).fetchone()
    return str(row[0]) if row else None


def record_default_warehouse(conn: Connection, warehouse: str) -> None:
    """Record it as an absolute location, in place of the one before."""
    conn.execute(_QUERIES["record_default_warehouse"], {"location": location_of(warehouse)})


def settle_default_warehouse(conn: Connection, warehouse: str) -> str:
    """The location that holds: the one on record, else this one, which is recorded."""
    conn.execute(_QUERIES["settle_default_warehouse"], {"location": location_of(warehouse)})
    row = conn.execute(_QUERIES["default_warehouse"]).fetchone()
    assert row is not None
    return str(row[0])
