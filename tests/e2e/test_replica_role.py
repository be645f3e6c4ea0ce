"""Writers with session_replication_role = replica: logical replication's apply worker, and loads that switch triggers
off that way.

Ordinary triggers do not fire for them. A change of a sealed partition that is not captured would be lost with the
partition.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.twin import Spanning

_CHANGES = (
    "insert into events (id, ts, v, note) values (9001, '2026-01-10 00:00+00', 1, 'late, by a replica')",
    "update events set v = v + 1000 where id between 10 and 40",
    "update events set ts = '2026-02-20 00:00+00' where id = 45",
    "delete from events where id between 50 and 60",
)


@pytest.mark.parametrize("keep_heap", [False, True], ids=["tiered", "keep-heap"])
def test_changes_of_tiered_rows_on_the_heap_are_captured_from_a_replica_role(
    make_spanning: Callable[..., Spanning], keep_heap: bool
) -> None:
    spanning = make_spanning(keep_heap=keep_heap)
    # A reader older than the publication: the tiered partitions stay in the heap, sealed.
    reader = spanning.session(autocommit=False)
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select txid_current(), 1")
    spanning.tier()
    reader.commit()
    writer, twin = spanning.session("public", autocommit=True), spanning.twin
    writer.execute("set session_replication_role = replica")
    for change in _CHANGES:
        writer.execute(change.encode())
        twin.execute(change.encode())
    spanning.assert_same_rows()
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()


def test_a_truncate_from_a_replica_role_reaches_both_tiers_of_a_kept_heap(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    writer = spanning.session("public", autocommit=True)
    writer.execute("set session_replication_role = replica")
    writer.execute("truncate public.events_2026_01")
    spanning.twin.execute("delete from events where ts < '2026-02-01 00:00+00'")
    spanning.assert_same_rows()


def test_postgres_fires_no_trigger_of_a_view_for_a_replica_role_so_such_writers_use_the_heaps_own_name(
    spanning: Spanning,
) -> None:
    """The documented limit: INSTEAD OF triggers cannot be made to fire always, and Postgres counts the row
    nevertheless."""
    spanning.tier()
    spanning.seam.execute("set session_replication_role = replica")
    assert spanning.seam.execute("insert into events (id, ts, v) values (9002, '2026-01-11 00:00+00', 1)").rowcount == 1
    spanning.assert_same_rows()
    for schema in ("public", "twin"):
        spanning.seam.execute(
            f"insert into {schema}.events (id, ts, v) values (9002, '2026-01-11 00:00+00', 1)".encode()
        )
    spanning.assert_same_rows()
