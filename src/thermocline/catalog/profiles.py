"""Storage profiles: named warehouses for lake tables."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from thermocline.errors import ProfileTaken, UnknownProfile
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
        names = ", ".join(other.name for other in read_profiles(conn))
        raise UnknownProfile(f"There is no storage profile {name}.", hint=f"There is: {names}." if names else None)
    return profile


def insert_profile(conn: Connection, profile: StorageProfile) -> None:
    """Write a profile. Writing it again may change the default, never the warehouse: tables are in it."""
    values = {"name": profile.name, "warehouse": profile.warehouse, "is_default": profile.is_default}
    with conn.transaction():
        conn.execute(_QUERIES["no_default"], values)
        if conn.execute(_QUERIES["insert_profile"], values).fetchone() is None:
            raise ProfileTaken(f"There is a storage profile {profile.name} already, with another warehouse.")
