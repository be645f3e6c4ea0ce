"""Numbered migrations of schema `thermocline`, applied under an advisory lock.

Each file `NNNN_name.sql` runs once, in order, all in one transaction with its row in `schema_version`:
a crash leaves the catalog at a whole version, and two programs starting at once do it once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg import sql

from thermocline.errors import CatalogTooNew

_LOCK_KEY = 7_461_001_913


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    version: int
    name: str
    text: str


def read_migrations() -> tuple[Migration, ...]:
    """The migrations this program carries, in order, without gaps."""
    found = []
    for entry in resources.files("thermocline.catalog").joinpath("migrations").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name):
            found.append(Migration(version=int(match[1]), name=match[2], text=entry.read_text("utf-8")))
    found.sort(key=lambda migration: migration.version)
    assert [m.version for m in found] == list(range(1, len(found) + 1)), "migrations are numbered without gaps"
    return tuple(found)


def read_version(conn: psycopg.Connection) -> int:
    """The catalog's version in this database; 0 when there is none."""
    row = conn.execute("select to_regclass('thermocline.schema_version') is not null").fetchone()
    if not row or not row[0]:
        return 0
    row = conn.execute("select coalesce(max(version), 0) from thermocline.schema_version").fetchone()
    return int(row[0]) if row else 0


def check_version_known(version: int) -> None:
    newest = len(read_migrations())
    if version > newest:
        raise CatalogTooNew(
            f"The catalog in this database has version {version}, and this program knows versions up to {newest}."
        )


def apply_migrations(conn: psycopg.Connection) -> int:
    """Bring the catalog to this program's version and return it. Harmless to repeat, also from two programs at once."""
    newest = len(read_migrations())
    if read_version(conn) == newest:
        return newest  # so that a role that may not create schemas can still use what is there
    with conn.transaction():
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        conn.execute("create schema if not exists thermocline")
        conn.execute(
            "create table if not exists thermocline.schema_version"
            " (version integer primary key, name text not null, applied_at timestamptz not null default now())"
        )
        current = read_version(conn)
        check_version_known(current)
        for migration in read_migrations()[current:]:
            conn.execute(sql.SQL(migration.text))  # our own file, no parameters
            conn.execute(
                "insert into thermocline.schema_version (version, name) values (%s, %s)",
                [migration.version, migration.name],
            )
            current = migration.version
    return current
