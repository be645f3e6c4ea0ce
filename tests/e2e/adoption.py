"""Unregister a spanning table, write its heap, and register it again with the lake it left."""

from __future__ import annotations

from tests.twin import Spanning

from thermocline.ops.register.registration import RegisterReport, RegisterRequest, register
from thermocline.ops.register.unregistration import UnregisterReport, unregister


def unregister_spanning(spanning: Spanning, **choices: object) -> UnregisterReport:
    return unregister(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, **choices)  # type: ignore[arg-type]


def adopt_lake(spanning: Spanning, **request: object) -> RegisterReport:
    requested = RegisterRequest(table=spanning.name, adopt_lake=True, **{"premake": 0, "start": True, **request})  # type: ignore[arg-type]
    return register(spanning.dsn, requested, settings=spanning.settings)


def write_heap_and_twin(spanning: Spanning, statement: str) -> None:
    """Write the heap while it is not registered, and the twin."""
    spanning.seam.execute(statement.replace("events", "public.events").encode())
    spanning.twin.execute(statement.encode())


def assert_heap_is_twin(spanning: Spanning) -> None:
    """Assert that the heap, read by its own name, equals the twin."""
    for query in (
        "select * from public.events except all select * from twin.events",
        "select * from twin.events except all table public.events",
    ):
        assert spanning.seam.execute(query.encode()).fetchall() == []


def read_partitions(spanning: Spanning) -> list[str]:
    found = spanning.query(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where inhparent = "
        "'public.events'::regclass order by 1"
    )
    return [row[0] for row in found]
