"""What mode a table of the database should be registered in, and what `register` would say to it."""

from __future__ import annotations

from dataclasses import replace

from thermocline.catalog.tables import read_table
from thermocline.core.axis import KeyType
from thermocline.core.modes.advice import Advice, Needs, advise, mode_of_today
from thermocline.core.modes.mode import Mode
from thermocline.core.names import TableName
from thermocline.core.tier_key import key_type_of, why_not_partitioned
from thermocline.errors import ThermoclineError
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.runtime.pg import connect
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.facts import HeapFacts, read_heap

_TIMES = frozenset(kind.value for kind in KeyType if not kind.is_integer)


def advise_table(dsn: str, name: TableName, needs: Needs, settings: Settings) -> Advice:
    """Look at the table, decide, and let `register` check it; nothing is changed."""
    with connect(dsn, autocommit=True, application_name="thermocline advise") as conn:
        heap = read_heap(conn, name)
        has_catalog = conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,)
        registered = read_table(conn, name) if has_catalog else None
    why = why_no_axis(heap)
    axis = heap.partition_column.name if why is None and heap.partition_column is not None else None
    advice = advise(str(name), axis, why, needs)
    if registered:
        return replace(advice, registered_as=registered.mode.name)
    mode = mode_of_today(axis, needs)
    refusal = None if mode is None else why_not_registered(dsn, name, mode, settings)
    return replace(advice, refusal=str(refusal), remedy=refusal.hint or None) if refusal else advice


def why_not_registered(dsn: str, name: TableName, mode: Mode, settings: Settings) -> ThermoclineError | None:
    """What `register` refuses the table with, in this mode and with no other option; None when it would register it."""
    request = RegisterRequest(table=name, mode=mode.option, keep_heap=mode.with_keep_heap, dry_run=True)
    try:
        register(dsn, request, settings=settings)
    except ThermoclineError as refusal:
        return refusal
    return None


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
    if column is None or key_type_of(column.base_type) is None:
        return f"{heap.partition_key_text} is of a type that cannot be a tier key"
    return None
