"""Storage profiles: named places where lake tables are made."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.errors import ProfileTaken, UnknownProfile
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/profiles.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageProfile:
    """A place for lake tables, and how many registered tables have theirs there."""

    name: str
    warehouse: str
    is_default: bool
    tables: int = 0


def read_profiles(conn: Connection) -> tuple[StorageProfile, ...]:
    return tuple(_profile(row) for row in conn.execute(_QUERIES["profiles"]))


def find_profile(conn: Connection, name: str | None) -> StorageProfile | None:
    """The profile of this name, or the one flagged default; none when nothing was named and nothing is flagged."""
    row = conn.execute(_QUERIES["profile"], {"name": name}).fetchone()
    if row is None and name is not None:
        known = ", ".join(profile.name for profile in read_profiles(conn))
        raise UnknownProfile(f"There is no storage profile {name}.", hint=f"There is: {known}." if known else None)
    return _profile(row) if row else None


def insert_profile(conn: Connection, profile: StorageProfile) -> None:
    """Write a profile; the same one again changes at most the default. Where tables lie already cannot be changed by
    its name."""
    values = {"name": profile.name, "warehouse": profile.warehouse, "is_default": profile.is_default}
    with conn.transaction():
        conn.execute(_QUERIES["no_default"], values)
        if conn.execute(_QUERIES["insert_profile"], values).fetchone() is None:
            raise ProfileTaken(f"There is a storage profile {profile.name} already, with another warehouse.")


def _profile(row: tuple[str, str, bool, int]) -> StorageProfile:
    return StorageProfile(name=row[0], warehouse=row[1], is_default=row[2], tables=row[3])
