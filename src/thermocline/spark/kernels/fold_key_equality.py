"""Compare keys whose stored form is not canonical by Postgres' own equality.

`1.0` and `1.00` are one numeric key, `24:00:00` and `1 day` one interval, `A` and `a` one citext, or one text under a
non-deterministic collation. Candidates are already equal in every exact key column. Equal texts are equal keys;
Postgres decides the few that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from psycopg import sql

from thermocline.parquet.values.key_index import Rows, normalise_key_column
from thermocline.runtime.pg import Connection

_CHUNK = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldKey:
    """A column of the primary key. `is_exact`: equal values have equal stored forms; otherwise Postgres' equality on
    `pg_type` decides."""

    name: str
    is_exact: bool
    pg_type: str
    collation: str | None = None
    operator_schema: str
    operator: str


def match_inexact_keys(
    conn: Connection,
    inexact: Sequence[FoldKey],
    keys: pa.Table,
    key_groups: Rows,
    read: Callable[[str], pa.Array],
    rows: Rows,
    groups: Rows,
) -> Rows:
    """The candidate rows that also equal a key of their group in every inexact column."""
    left, right = _pairs(key_groups, rows, groups)
    for key in inexact:
        lake = read(key.name).take(pa.array(rows))
        requested = normalise_key_column(keys.column(key.name))
        ours, theirs = lake.take(pa.array(left)).to_pylist(), requested.take(pa.array(right)).to_pylist()
        same = np.array([a == b for a, b in zip(ours, theirs, strict=True)], dtype=bool)
        unsure = np.flatnonzero(~same)
        for start in range(0, len(unsure), _CHUNK):
            part = unsure[start : start + _CHUNK]
            same[part] = _compare_in_postgres(conn, key, [ours[at] for at in part], [theirs[at] for at in part])
        left, right = left[same], right[same]
    return rows[np.unique(left)]


def _pairs(key_groups: Rows, rows: Rows, groups: Rows) -> tuple[Rows, Rows]:
    """Every candidate paired with every key of its group: indexes into `rows` and into the keys."""
    order = np.argsort(key_groups, kind="stable")
    ordered = key_groups[order]
    first, last = np.searchsorted(ordered, groups, "left"), np.searchsorted(ordered, groups, "right")
    counts = last - first
    left = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    offsets = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return left, order[np.repeat(first, counts) + offsets]


def _compare_in_postgres(conn: Connection, key: FoldKey, ours: list[str], theirs: list[str]) -> list[bool]:
    """Whether the values are equal, parsed by the type's input function as literals. A cast from text could be a user's
    own."""
    kind = sql.SQL(
        key.pg_type if key.collation is None else f"{key.pg_type} collate {key.collation}"
    )  # Postgres' own spelling
    between = sql.SQL("::{kind} operator({schema}.{operator}) ").format(
        kind=kind, schema=sql.Identifier(key.operator_schema), operator=sql.SQL(key.operator)
    )
    after = sql.SQL("::{}").format(kind)
    comparisons = sql.SQL(", ").join(
        sql.Composed([sql.Literal(a), between, sql.Literal(b), after]) for a, b in zip(ours, theirs, strict=True)
    )
    row = conn.execute(sql.SQL("select array[{}]").format(comparisons)).fetchone()
    return [bool(same) for same in row[0]] if row else []
