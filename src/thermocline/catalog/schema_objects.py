"""Functions, views and triggers of schema `thermocline`: one file per object, applied again whenever its text changed.

`functions/f.sql` holds every overload of `thermocline.f`, `views/v.sql` view `thermocline.v`, `triggers/t.g.sql`
trigger `g` on table `thermocline.t`, and `triggers/e.sql` event trigger `e`. Comments and privileges stand in the same
file.

Files use CREATE OR REPLACE, which is safe while other sessions use the object. Postgres does not replace a function
with another return type or a view with other columns: such an object is dropped with the objects of ours that depend on
it, and all of them are created again. If an object that is not ours depends on it (the seam of a registered table), the
upgrade is refused: then a migration has to change that dependent first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib import resources
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from thermocline.errors import CatalogObjectInUse
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/schema_objects.sql")
_RETIRED = frozenset(
    {
        *(("functions", name) for name in ("claim_home", "filled", "is_home", "note_home", "rendered", "view_extras")),
        *(("triggers", name) for name in ("tables.note_home", "lake_tables.note_home")),
    }
)
"""Objects of version 13 that have no file any more."""
_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1|'(?:[^']|'')*'", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFile:
    """The definition of one function (with its overloads), view or trigger."""

    kind: str
    name: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def references(self) -> frozenset[str]:
        """The names in our schema that must exist before this object; Postgres reads the body of a function later."""
        return frozenset(re.findall(r"\bthermocline\.(\w+)", _NOT_CODE.sub(" ", self.text)))


@cache
def read_object_files() -> tuple[ObjectFile, ...]:
    """The objects this program carries, each after those it refers to; triggers last, event triggers at the end."""
    files = [file for kind in ("functions", "views") for file in _read_folder(kind)]
    order: TopologicalSorter[ObjectFile] = TopologicalSorter()
    for file in files:
        order.add(file, *(other for other in files if other.name in file.references and other.name != file.name))
    triggers = sorted(_read_folder("triggers"), key=lambda file: "." not in file.name)
    return (*order.static_order(), *triggers)


def _read_folder(kind: str) -> list[ObjectFile]:
    entries = resources.files("thermocline.catalog").joinpath(kind).iterdir()
    found = [
        ObjectFile(kind=kind, name=entry.name.removesuffix(".sql"), text=entry.read_text("utf-8"))
        for entry in entries
        if entry.name.endswith(".sql")
    ]
    return sorted(found, key=lambda file: file.name)


class _RecordedObject(NamedTuple):
    kind: str
    name: str
    sha256: str


def read_recorded_objects(conn: Connection) -> dict[tuple[str, str], str]:
    """The checksum of each object as it was applied last, by kind and name."""
    cursor = conn.cursor(row_factory=class_row(_RecordedObject))
    found = cursor.execute("select kind, name, sha256 from thermocline.schema_objects")
    return {(row.kind, row.name): row.sha256 for row in found}


def record_objects(conn: Connection, checksums: Mapping[tuple[str, str], str]) -> None:
    rows = [{"kind": kind, "name": name, "sha256": sha256} for (kind, name), sha256 in checksums.items()]
    with conn.cursor() as cursor:
        cursor.executemany(_QUERIES["record_object"], rows)


def record_existing_objects(conn: Connection) -> None:
    """Record what a catalog has of ours that was made before objects had files of their own: its checksum is not known.

    What somebody else put into our schema has no file and is not ours to drop.
    """
    conn.execute(_QUERIES["record_existing_objects"])
    ours = _RETIRED | {file.key for file in read_object_files()}
    for kind, name in read_recorded_objects(conn).keys() - ours:
        conn.execute("delete from thermocline.schema_objects where (kind, name) = (%s, %s)", [kind, name])


def apply_schema_objects(conn: Connection) -> None:
    """Apply each file whose text changed, and drop the objects whose file is gone."""
    files = read_object_files()
    recorded = {key: sha256 for key, sha256 in read_recorded_objects(conn).items() if key[0] != "rows"}
    if recorded:
        changed = _apply_changed_files(conn, files, recorded)
    else:
        conn.execute(sql.SQL("\n".join(file.text for file in files)))  # our own files, no parameters; one round trip
        changed = files
    record_objects(conn, {file.key: file.sha256 for file in changed})


def _apply_changed_files(
    conn: Connection, files: tuple[ObjectFile, ...], recorded: Mapping[tuple[str, str], str]
) -> tuple[ObjectFile, ...]:
    changed: list[ObjectFile] = []
    dropped: set[tuple[str, str]] = set()
    removed = recorded.keys() - {file.key for file in files}
    for kind, name in sorted(removed, key=lambda key: key[0] != "triggers"):
        dropped |= _drop_object(conn, kind, name)
        conn.execute("delete from thermocline.schema_objects where (kind, name) = (%s, %s)", [kind, name])
    for file in files:
        if file.key not in recorded:
            conn.execute(sql.SQL(file.text))
        elif recorded[file.key] != file.sha256 or file.key in dropped:
            dropped |= _replace_object(conn, file)
        else:
            continue
        changed.append(file)
    return tuple(changed)


class _Overload(NamedTuple):
    """A function by its signature, and the place of its row in pg_proc, which every replacement changes."""

    signature: str
    ctid: str


def _replace_object(conn: Connection, file: ObjectFile) -> set[tuple[str, str]]:
    """Apply a file to what an earlier one left; what had to be dropped on the way."""
    dropped: set[tuple[str, str]] = set()
    _reset_privileges(conn, file)
    before = _read_overloads(conn, file)
    try:
        with conn.transaction():
            conn.execute(sql.SQL(file.text))
    except (psycopg.errors.InvalidFunctionDefinition, psycopg.errors.InvalidTableDefinition):
        dropped = _drop_object(conn, file.kind, file.name)
        conn.execute(sql.SQL(file.text))
    else:
        for overload in before & _read_overloads(conn, file):
            conn.execute(sql.SQL("drop function {}").format(sql.SQL(overload.signature)))
    return dropped


def _reset_privileges(conn: Connection, file: ObjectFile) -> None:
    """Give PUBLIC what it has on a new object, because a replaced one keeps its privileges; the file revokes or
    grants."""
    if file.kind == "functions":
        for overload in _read_overloads(conn, file):
            conn.execute(sql.SQL("grant execute on function {} to public").format(sql.SQL(overload.signature)))
    elif file.kind == "views" and conn.execute(_QUERIES["view_exists"], {"name": file.name}).fetchone() == (True,):
        conn.execute(sql.SQL("revoke all on {} from public").format(sql.Identifier("thermocline", file.name)))


def _read_overloads(conn: Connection, file: ObjectFile) -> set[_Overload]:
    if file.kind != "functions":
        return set()
    cursor = conn.cursor(row_factory=class_row(_Overload))
    return set(cursor.execute(_QUERIES["overloads"], {"name": file.name}))


class _Dependent(NamedTuple):
    """An object that another one needs; without kind and name if it is not one of our files."""

    kind: str | None
    name: str | None
    drop_as: str | None
    description: str


def _drop_object(conn: Connection, kind: str, name: str) -> set[tuple[str, str]]:
    """Drop an object with the objects of ours that depend on it, and return these; refuse if anything else does."""
    cursor = conn.cursor(row_factory=class_row(_Dependent))
    found = cursor.execute(_QUERIES["dependents"], {"kind": kind, "name": name}).fetchall()
    if others := [row.description for row in found if row.name is None]:
        raise CatalogObjectInUse(
            f"thermocline.{name} changed in a way that needs it dropped, and {', '.join(others[:3])} depends on it."
        )
    for row in found:
        if row.drop_as is not None and (row.kind, row.name) == (kind, name):
            conn.execute(sql.SQL("drop {} cascade").format(sql.SQL(row.drop_as)))
    return {(row.kind, row.name) for row in found if row.kind is not None and row.name is not None}
