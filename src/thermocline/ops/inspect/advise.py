"""What mode a table of the database should be registered in."""

from __future__ import annotations

from dataclasses import replace

from thermocline.catalog.tables import read_table
from thermocline.core.axis import KeyType
from thermocline.core.modes.advice import Advice, Needs, advise
from thermocline.core.names import TableName
from thermocline.core.tier_key import why_not_partitioned
from thermocline.runtime.pg import connect
from thermocline.seam.heap.facts import HeapFacts, read_heap

_KEY_TYPES = frozenset(kind.value for kind in KeyType)
_TIMES = frozenset(kind.value for kind in KeyType if not kind.is_integer)


def advise_table(dsn: str, name: TableName, needs: Needs) -> Advice:
    """Look at the table and decide; nothing is changed."""
    with connect(dsn, autocommit=True, application_name="thermocline advise") as conn:
        heap = read_heap(conn, name)
        has_catalog = conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,)
        registered = read_table(conn, name) if has_catalog else None
    why = why_no_axis(heap)
    column = heap.partition_column
    advice = advise(str(name), column.name if why is None and column is not None else None, why, needs)
    return replace(advice, registered_as=registered.mode.name) if registered else advice


def why_no_axis(heap: HeapFacts) -> str | None:
    """Why rows of this table cannot move by age; None when they can."""
    if reason := why_not_partitioned(
        heap.strategy, heap.partition_key_text, len(heap.partition_attnums), 0 in heap.partition_attnums
    ):
        times = [column.name for column in heap.columns if column.pg_type in _TIMES]
        return (
            f"{reason} (PARTITION BY RANGE ({times[0]}) would make {times[0]} one)"
            if times and heap.strategy is None
            else reason
        )
    column = heap.partition_column
    if column is None or column.pg_type not in _KEY_TYPES:
        return f"{heap.partition_key_text} is of a type that cannot be a tier key"
    return None
