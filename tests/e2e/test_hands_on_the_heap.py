"""What people do to the heap by hand while it is registered: partitions detached or made, the table renamed. No row is lost or returns."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from tests.twin import Spanning

from thermocline.errors import HeapChanged, PartitionGone

_JANUARY = "ts < '2026-02-01 00:00+00'"


def test_a_partition_detached_while_it_is_sealed_is_not_copied_and_what_happens_to_it_is_no_history(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(reclaim_lag="9000d")
    heap = spanning.session("public", autocommit=True)

    def detach(said: str) -> None:
        if said == "sealing public.events_2026_02":
            heap.execute("alter table public.events detach partition public.events_2026_01")
            spanning.twin.execute(f"delete from events where {_JANUARY}".encode())

    with pytest.raises(PartitionGone, match=r"public\.events_2026_01 was detached from public\.events"):
        spanning.tier(talk=detach)
    spanning.assert_same_rows()
    heap.execute("delete from public.events_2026_01 where id < 20; update public.events_2026_01 set v = v + 1")
    assert spanning.tier().moved == ["public.events_2026_02", "public.events_2026_03"]
    spanning.assert_same_rows()

    heap.execute("alter table public.events detach partition public.events_2026_02")
    heap.execute("delete from public.events_2026_02 where id < 150; update public.events_2026_02 set ts = '2026-01-02 00:00+00', v = 7")
    heap.execute("insert into public.events_2026_02 (id, ts, v) values (1, '2026-02-02 00:00+00', 1); truncate public.events_2026_01")
    spanning.assert_same_rows()
    heap.execute("drop table public.events_2026_01, public.events_2026_02")
    spanning.both("update events set v = v + 1 where id in (130, 300, 380) returning id, v")
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()


def test_a_seam_never_writes_to_another_table_that_took_the_heaps_name(changing: Spanning) -> None:
    changing.seam.execute("alter table public.events rename to events_old; create table public.events (like public.events_old)")
    for statement in (
        "insert into events (id, ts, v) values (901, '2026-01-05', 1)",
        "insert into events (id, ts, v) values (902, '2026-03-05', 1)",
        "update events set v = 77 where id in (5, 65)",
        "delete from events where id = 6",
        "delete from events where id = 66",
    ):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r"public\.events is not the table that was registered"):
            changing.seam.execute(statement.encode())
    changing.assert_same_rows()
    with pytest.raises(HeapChanged):
        changing.tier()
    changing.seam.execute("drop table public.events; alter table public.events_old rename to events")
    changing.both("update events set v = 77 where id in (5, 65) returning id, v")
    changing.assert_same_rows()
