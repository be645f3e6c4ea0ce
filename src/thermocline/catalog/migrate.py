"""Install and upgrade schema `thermocline`, in one transaction under an advisory lock.

The catalog has three parts, each recorded in the database with a checksum:

- `tables/NNNN_name.sql`: append-only migrations of tables. Each runs once, in order. A landed one never changes.
- `functions/`, `views/`, `triggers/`: one file per object, applied again whenever its text changed
  (`schema_objects.py`).
- `reference_tables.py`: rows declared in Python, synchronised whenever they changed.

A crash leaves the catalog at a whole version, and two programs that start at once apply it once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from thermocline.catalog.reference_tables import REFERENCE_TABLES, apply_reference_table
from thermocline.catalog.schema_objects import (
    apply_schema_objects,
    read_object_files,
    read_recorded_objects,
    record_existing_objects,
    record_objects,
)
from thermocline.errors import CatalogNotUpgraded, CatalogTooNew, CatalogTooOld, MigrationChanged, MissingPrivilege
from thermocline.runtime.pg import Connection, rows_by_name

_LOCK_KEY = 7_461_001_913
_BOOKKEEPING = """
create schema if not exists thermocline;
create table if not exists thermocline.schema_version
    (version integer primary key, name text not null, applied_at timestamptz not null default now());
alter table thermocline.schema_version add column if not exists sha256 text;
create table if not exists thermocline.schema_objects
    (kind text, name text, sha256 text not null, applied_at timestamptz not null default now(),
     primary key (kind, name));
comment on table thermocline.schema_version is 'The migrations of tables that were applied, with their checksums.';
comment on table thermocline.schema_objects is
    'The functions, views, triggers and reference rows as they were applied last: a checksum for each.';
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    version: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def read_migrations() -> tuple[Migration, ...]:
    """The migrations this program carries, in order, without gaps; the first one is the baseline."""
    found = []
    for entry in resources.files("thermocline.catalog").joinpath("tables").iterdir():
        if match := re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name):
            found.append(Migration(version=int(match[1]), name=match[2], text=entry.read_text("utf-8")))
    found.sort(key=lambda migration: migration.version)
    first = found[0].version
    assert [m.version for m in found] == list(range(first, first + len(found))), "migrations are numbered without gaps"
    return tuple(found)


def newest_version() -> int:
    """The version that this program brings a catalog to."""
    return read_migrations()[-1].version


def read_version(conn: psycopg.Connection) -> int:
    """The catalog's version in this database; 0 when there is none."""
    row = conn.execute("select to_regclass('thermocline.schema_version') is not null").fetchone()
    if not row or not row[0]:
        return 0
    row = conn.execute("select coalesce(max(version), 0) from thermocline.schema_version").fetchone()
    return int(row[0]) if row else 0


def check_version_known(version: int) -> None:
    newest = newest_version()
    if version > newest:
        raise CatalogTooNew(
            f"The catalog in this database has version {version}, and this program knows versions up to {newest}."
        )


def check_version_current(conn: Connection) -> None:
    """Refuse a catalog of another version than this program's: its rows would be misread."""
    version, newest = read_version(conn), newest_version()
    check_version_known(version)
    if version < newest:
        raise CatalogNotUpgraded(
            f"The catalog in this database has version {version}, and this program needs {newest}."
        )


def is_up_to_date(conn: Connection) -> bool:
    """Whether the catalog has this program's version, functions, views, triggers and reference rows.

    Refuses a catalog whose migrations are not the ones that this program carries.
    """
    version = read_version(conn)
    check_version_known(version)
    if version < newest_version() or not _has_bookkeeping(conn):
        return False
    _check_checksums(conn)
    return read_recorded_objects(conn) == _read_own_checksums()


def apply_migrations(conn: Connection) -> int:
    """Bring the catalog to this program's version and return it. Harmless to repeat, also from two programs at once."""
    if is_up_to_date(conn):
        return newest_version()  # so that a role that may not create schemas can use the catalog
    with conn.transaction():
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        version = read_version(conn)
        check_version_known(version)
        _check_not_older_than_baseline(version)
        is_adopted = version > 0 and not _has_bookkeeping(conn)
        with _settings_of_an_upgrade(conn):
            conn.execute(_BOOKKEEPING)
            if is_adopted:
                _adopt_baseline(conn)
            _check_checksums(conn)
            for migration in read_migrations():
                if migration.version > version:
                    _apply_migration(conn, migration)
            apply_schema_objects(conn)
            _apply_reference_tables(conn)
            # Registered tables have functions that were rendered from the templates of the program before.
            conn.execute("select thermocline.rebuild_functions()")
    return newest_version()


def _read_own_checksums() -> dict[tuple[str, str], str]:
    objects = {file.key: file.sha256 for file in read_object_files()}
    return objects | {("rows", table.name): table.sha256 for table in REFERENCE_TABLES}


def _has_bookkeeping(conn: Connection) -> bool:
    return conn.execute("select to_regclass('thermocline.schema_objects') is not null").fetchone() == (True,)


def _check_not_older_than_baseline(version: int) -> None:
    baseline = read_migrations()[0].version
    if 0 < version < baseline:
        raise CatalogTooOld(
            f"The catalog in this database has version {version}, and this program upgrades from version {baseline} on."
        )


class _AppliedMigration(NamedTuple):
    version: int
    sha256: str | None


def _check_checksums(conn: Connection) -> None:
    """Refuse a catalog that was made by other migrations than this program's, under the same numbers."""
    cursor = conn.cursor(row_factory=class_row(_AppliedMigration))
    applied = cursor.execute("select version, sha256 from thermocline.schema_version")
    carried = {migration.version: migration for migration in read_migrations()}
    rows = {row.version: row for row in applied}
    for version in range(min(carried), max(rows, default=0) + 1):
        migration, row = carried[version], rows.get(version)
        if row is None:
            raise MigrationChanged(f"Migration {version} ({migration.name}) was not applied, but a later one was.")
        if row.sha256 != migration.sha256:
            raise MigrationChanged(f"Migration {version} ({migration.name}) is not the one that made this catalog.")


@contextmanager
def _settings_of_an_upgrade(conn: Connection) -> Iterator[None]:
    """Our event triggers ignore our own statements, and a function may come before those that its body calls."""
    settings = {"thermocline.following": "on", "check_function_bodies": "off"}
    before = {name: _read_setting(conn, name) for name in settings}
    for name, value in settings.items():
        conn.execute("select set_config(%s, %s, true)", [name, value])
    yield
    for name, value in before.items():
        conn.execute("select set_config(%s, %s, true)", [name, value])


def _read_setting(conn: Connection, name: str) -> str:
    row = conn.execute("select coalesce(current_setting(%s, true), '')", [name]).fetchone()
    assert row is not None
    return str(row[0])


def _adopt_baseline(conn: Connection) -> None:
    """Version 13 was made by thirteen migrations that are one baseline now, and recorded no objects."""
    baseline = read_migrations()[0]
    conn.execute("delete from thermocline.schema_version where version < %s", [baseline.version])
    conn.execute(
        "update thermocline.schema_version set name = %s, sha256 = %s where version = %s",
        [baseline.name, baseline.sha256, baseline.version],
    )
    record_existing_objects(conn)


def _apply_migration(conn: Connection, migration: Migration) -> None:
    conn.execute(sql.SQL(migration.text))  # our own file, no parameters
    conn.execute(
        "insert into thermocline.schema_version (version, name, sha256) values (%s, %s, %s)",
        [migration.version, migration.name, migration.sha256],
    )


def _apply_reference_tables(conn: Connection) -> None:
    recorded = read_recorded_objects(conn)
    for table in REFERENCE_TABLES:
        if recorded.get(("rows", table.name)) != table.sha256:
            apply_reference_table(conn, table)
            record_objects(conn, {("rows", table.name): table.sha256})
    names = [table.name for table in REFERENCE_TABLES]
    conn.execute("delete from thermocline.schema_objects where kind = 'rows' and name <> all (%s)", [names])


def check_catalog_is_ours(conn: Connection) -> None:
    """Refuse a role that cannot write the catalog somebody else made in this database."""
    catalog = (
        rows_by_name(conn)
        .execute(
            "select current_user::text as role, pg_get_userbyid(n.nspowner) as owner,"
            " pg_has_role(current_user, n.nspowner, 'USAGE') as may_write"
            " from pg_namespace n where n.nspname = 'thermocline'"
        )
        .fetchone()
    )
    if catalog and not catalog.may_write:
        raise MissingPrivilege(
            f"The catalog in this database belongs to role {catalog.owner}, and role {catalog.role} may not write it.",
            hint=f"Run as {catalog.owner} or as a superuser.",
        )
