"""Adopt a lake that an unregistration kept: no row is copied twice, doubled or hidden, and no other table's lake is
adopted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.e2e.adoption import adopt_lake, unregister_spanning, write_heap_and_twin
from tests.twin import Spanning

from thermocline.errors import LakeNotAdoptable
from thermocline.maintain.lake_tables import add_table, read_list
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.verify.verify_table import verify


def lake_files(spanning: Spanning) -> set[str]:
    return {
        row[0] for row in spanning.spark().sql("select file_path from thermocline.public.events.data_files").collect()
    }


def write_through_the_seam(spanning: Spanning, number: int = 1) -> None:
    spanning.both("update events set v = v + 1 where id in (20, 150, 270, 390) returning *")
    spanning.both(f"insert into events (id, ts, v) values ({9100 + number}, '2026-02-11 00:00+00', 1) returning *")
    spanning.both(
        f"delete from events where id in ({number + 20}, {number + 150}, {number + 270}, {number + 390}) returning id"
    )
    spanning.assert_same_rows()


@pytest.mark.conforms("C-202", "C-204")
def test_a_tiered_table_is_left_and_taken_up_again(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    write_through_the_seam(spanning)
    spanning.fold()
    for table in ("public.events", "twin.events"):
        spanning.seam.execute(f"alter table {table} add column more text default 'old'".encode())
    spanning.both("update events set v = v + 1 where id in (22, 152) returning *")
    report = unregister_spanning(spanning, fold_first=True)
    assert "only copy" in report.notes[0]
    files = lake_files(spanning)
    add_table(spanning.dsn, spanning.name)
    write_heap_and_twin(spanning, "update events set v = v + 1 where ts >= '2026-04-01 00:00+00'")
    write_heap_and_twin(spanning, "insert into events (id, ts, v) values (9001, '2026-04-20 00:00+00', 1)")
    assert adopt_lake(spanning).cut_line == "2026-04-01 00:00:00+00"
    assert [line.registered for line in read_list(spanning.dsn)] == [True], (
        "no pass that knows nothing of readers in Postgres"
    )
    spanning.assert_same_rows()
    assert lake_files(spanning) == files
    write_through_the_seam(spanning, 2)
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact
    assert adopt_lake(spanning).already


@pytest.mark.conforms("C-204")
def test_keep_heap_becomes_tiered_and_rows_that_did_not_change_are_not_copied_twice(
    make_spanning: Callable[..., Spanning],
) -> None:
    """February is changed while nobody is registered: it alone is copied again, and what was deleted does not come
    back."""
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (17, 300)")
    spanning.fold()
    unregister_spanning(spanning)
    before = lake_files(spanning)
    write_heap_and_twin(spanning, "delete from events where id in (150, 151)")
    write_heap_and_twin(spanning, "update events set v = v + 7 where id between 160 and 170")
    write_heap_and_twin(spanning, "insert into events (id, ts, v) values (9001, '2026-02-11 00:00+00', 1)")
    assert adopt_lake(spanning, mode="tiered").cut_line == "2026-01-01 00:00:00+00"
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (155, 390) returning *")
    report = spanning.tier()
    assert [note for note in report.notes if "already" in note] == [
        "the lake held public.events_2026_01 already",
        "the lake held public.events_2026_03 already",
    ]
    assert (len(report.moved), len(report.dropped)) == (3, 3)
    after = lake_files(spanning)
    assert {path.split("ts_month=")[1][:7] for path in before - after} == {"2026-02"}
    assert {path.split("ts_month=")[1][:7] for path in before & after} == {"2026-01", "2026-03"}
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact
    write_through_the_seam(spanning)
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()
    lake = spanning.spark().sql("select count(*), sum(v) from thermocline.public.events").collect()
    twin = spanning.twin.execute("select count(*), sum(v) from events where ts < '2026-04-01 00:00+00'").fetchall()
    assert [tuple(row) for row in lake] == twin


@pytest.mark.conforms("C-204")
def test_rows_of_a_partition_made_below_the_line_are_added_to_the_lakes(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    unregister_spanning(spanning)
    bounds = "from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00')"
    spanning.seam.execute(f"create table public.late partition of public.events for values {bounds}".encode())
    rows = "(9001, '2026-01-11 00:00+00', 1), (20, '2026-01-06 00:00+00', 99)"
    spanning.seam.execute(f"insert into public.events (id, ts, v) values {rows}".encode())
    adopt_lake(spanning)
    spanning.twin.execute("insert into events (id, ts, v) values (9001, '2026-01-11 00:00+00', 1)")
    spanning.twin.execute("update events set v = 99, note = 'd', amount = null, tags = null, doc = null where id = 20")
    spanning.assert_same_rows()
    write_through_the_seam(spanning)
    spanning.fold()
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-204", "C-211")
def test_a_lake_is_taken_up_only_when_asked_and_only_as_it_was_left(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    unregister_spanning(spanning)
    with pytest.raises(Exception, match=r"The lake has a table public\.events already"):
        register(spanning.dsn, RegisterRequest(table=spanning.name), settings=spanning.settings)
    with pytest.raises(
        LakeNotAdoptable, match="With --keep-heap the heap holds every row, and only the lake holds those at 2026-01"
    ):
        adopt_lake(spanning, keep_heap=True)
    with pytest.raises(LakeNotAdoptable, match="is partitioned by month"):
        adopt_lake(spanning, lake_partition="day")
    spanning.seam.execute("alter table public.events add column more text")
    with pytest.raises(LakeNotAdoptable, match=r"Column more of public\.events is not in the lake"):
        adopt_lake(spanning)
    spanning.seam.execute(
        "alter table public.events drop column more, drop column note, add column note text default 'd'"
    )
    with pytest.raises(LakeNotAdoptable, match=r"Column note of public\.events was dropped and added again"):
        adopt_lake(spanning)
    assert spanning.query("select count(*) from thermocline.tables") == [(0,)]


@pytest.mark.conforms("C-211")
def test_a_lake_of_another_incarnation_or_with_others_rows_is_never_taken_up_silently(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    unregister_spanning(spanning)
    spanning.seam.execute("alter table public.events rename to gone")
    spanning.seam.execute("create table public.events (like public.gone including all) partition by range (ts)")
    bounds = "from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00')"
    spanning.seam.execute(f"create table public.anew partition of public.events for values {bounds}".encode())
    spanning.seam.execute("insert into public.events select * from public.gone")
    with pytest.raises(LakeNotAdoptable, match="another incarnation of the table") as refused:
        adopt_lake(spanning)
    lake_uuid = str(spanning.query("select lake_uuid from thermocline.kept_lakes")[0][0])
    assert lake_uuid in refused.value.hint
    adopt_lake(spanning, incarnation=lake_uuid)
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (20, 390) returning *")
    unregister_spanning(spanning, fold_first=True)
    spanning.spark().sql("delete from thermocline.public.events where id = 20")
    with pytest.raises(LakeNotAdoptable, match="somebody else's rows were committed since"):
        adopt_lake(spanning)
