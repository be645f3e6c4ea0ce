"""How far an orphan sweep has come, and what it found so far: a sweep that is cut off goes on instead of listing all
again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from psycopg.rows import class_row

from thermocline.catalog.safety import Owner
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/sweeps.sql")
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPosition:
    """The last folder that was listed, relative to its root, and how many files were listed until then."""

    root: str
    after: str
    listed: int


def read_sweep(conn: Connection, owner: Owner) -> SweepPosition | None:
    """Where the last sweep was cut off, unless that is more than a day ago."""
    return conn.cursor(row_factory=class_row(SweepPosition)).execute(_QUERIES["read"], owner.values()).fetchone()


def read_candidates(conn: Connection, owner: Owner) -> Iterator[ListedFile]:
    """What it had found, a few rows at a time."""
    with conn.transaction(), conn.cursor(name="sweep_candidates") as rows:
        rows.itersize = _ROWS_AT_ONCE
        rows.execute(_QUERIES["candidates"], owner.values())
        for path, size, modified in rows:
            yield ListedFile(path=path, size_bytes=size, modified=modified)


def save_sweep(conn: Connection, owner: Owner, position: SweepPosition, found: Iterable[ListedFile]) -> None:
    """Note how far the sweep is, with what it found since it noted that last."""
    with conn.transaction():
        conn.execute(_QUERIES["forget"], owner.values())
        conn.execute(
            _QUERIES["save"],
            {**owner.values(), "root": position.root, "after": position.after, "listed": position.listed},
        )
        with conn.cursor() as cursor, cursor.copy(_QUERIES["add_candidates"]) as rows:
            for file in found:
                rows.write_row((file.path, owner.table_id, owner.lake_id, file.size_bytes, file.modified))


def forget_sweep(conn: Connection, owner: Owner) -> None:
    """The listing is over, or begins anew."""
    with conn.transaction():
        conn.execute(_QUERIES["forget"], owner.values())
        conn.execute(_QUERIES["forget_candidates"], owner.values())
