"""A writer that loses its table lock to another writer just before it publishes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.fault_points import patch_fault_points
from tests.twin import Spanning

from thermocline.catalog import journal
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect


@dataclass(frozen=True, slots=True)
class PublishingOp:
    """An op that publishes: how it runs, the last fault point before its publication, and the writer that comes after
    it."""

    point: str
    run: Callable[[Spanning], object]
    successor: Callable[[Spanning], object]


def overtake_at(monkeypatch: pytest.MonkeyPatch, verb: PublishingOp, overtaker: Callable[[], object]) -> None:
    """At the fault point, release the writer's table lock and run another writer."""
    held: list[Connection] = []
    table_lock = journal.table_lock

    def remember(conn: Connection, *args: Any, **kwargs: Any) -> Any:
        held.append(conn)
        return table_lock(conn, *args, **kwargs)

    def fault_point(name: str) -> None:
        if name == verb.point:
            patch_fault_points(monkeypatch, lambda _: None)
            held[0].execute("select pg_advisory_unlock_all()")
            overtaker()

    monkeypatch.setattr(journal, "table_lock", remember)
    patch_fault_points(monkeypatch, fault_point)


def claim_fence(spanning: Spanning) -> None:
    """Claim the table as a writer that dies right after it."""
    with connect(spanning.dsn, autocommit=True) as conn:
        ((table_id,),) = conn.execute("select id from thermocline.tables").fetchall()
        with journal.table_lock(conn, table_id, "public.events"):
            journal.claim(conn, table_id)
