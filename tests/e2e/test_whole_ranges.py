"""Whole ranges: verify, repair, restore and adoption use one proof that the heap holds every row of a range. Where it
fails, no row of the lake counts as deleted."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from tests.e2e.adoption import (
    adopt_lake,
    assert_heap_is_twin,
    read_partitions,
    unregister_spanning,
    write_heap_and_twin,
)
from tests.twin import Spanning

from thermocline.core.messages.progress import Progress
from thermocline.errors import (
    DeltaNotEmpty,
    HeapLacksRows,
    LakeNotAdoptable,
    LockNotGranted,
    SpillNotCaptured,
    WrittenDuringRestore,
)
from thermocline.ops.doctor.checks import examine
from thermocline.ops.register import unregistration as unregister_module
from thermocline.ops.register.registration_plan import plan_objects
from thermocline.ops.register.unregistration import ONLY_COPY, WHOLE_HEAP
from thermocline.ops.verify.repair import repair as repair_ranges
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import Connection
from thermocline.seam.objects import SeamObjects

TRUNCATIONS = ["public.events", "public.events_2026_02"]


@pytest.fixture
def resting(make_spanning: Callable[..., Spanning]) -> Spanning:
    """January to March are in the lake, and their partitions stay in the heap for a year."""
    spanning = make_spanning(reclaim_lag="400d")
    spanning.tier()
    assert spanning.query("select count(*) from thermocline.partitions where state = 'tiered'") == [(3,)]
    return spanning


@pytest.fixture
def kept(make_spanning: Callable[..., Spanning]) -> Spanning:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    return spanning


def repair(spanning: Spanning) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "thermocline",
        "verify",
        "public.events",
        "--dsn",
        spanning.dsn,
        "--repair",
        "--yes",
        "public.events",
    ]
    return subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def whole(spanning: Spanning) -> list[str]:
    return [
        row[0] for row in spanning.query("select name from thermocline.partitions_in_heap where is_whole order by lo")
    ]


def truncate(spanning: Spanning, what: str) -> None:
    """History stays: the twin loses what the heap alone answers for."""
    spanning.seam.execute(f"truncate {what}".encode())
    if what == "public.events":
        spanning.twin.execute("delete from events where ts >= '2026-04-01 00:00+00'")


def detach_and_attach(spanning: Spanning, meanwhile: str) -> None:
    heap = spanning.session("public", autocommit=True)
    heap.execute("alter table public.events detach partition public.events_2026_02")
    heap.execute(meanwhile.encode())
    heap.execute(
        "alter table public.events attach partition public.events_2026_02 for values from ('2026-02-01 "
        "00:00Z') to ('2026-03-01 00:00Z')"
    )


@pytest.mark.conforms("C-173", "C-199")
@pytest.mark.parametrize("what", TRUNCATIONS)
def test_repair_does_not_delete_the_history_that_a_truncate_left(resting: Spanning, what: str) -> None:
    assert whole(resting) == [f"events_2026_0{month}" for month in (1, 2, 3)]
    truncate(resting, what)
    assert verify(resting.dsn, resting.name).is_exact
    done = repair(resting)
    assert done.returncode == 0, done.stderr
    resting.assert_same_rows()
    resting.both("insert into events (id, ts, v) values (9100, '2026-02-11 00:00+00', 1) returning *")
    resting.both("update events set v = v + 1 where id in (20, 150, 270) returning *")
    resting.fold()
    assert repair(resting).returncode == 0
    resting.assert_same_rows()


def test_a_truncate_that_nothing_captured_proves_no_delete_either(resting: Spanning) -> None:
    resting.seam.execute("alter table public.events_2026_02 disable trigger all; truncate public.events_2026_02")
    for trigger in ("thermocline_capture", "thermocline_capture_truncate"):
        resting.seam.execute(f"alter table public.events_2026_02 enable always trigger {trigger}".encode())
    done = repair(resting)
    assert (done.returncode, "112 rows that the heap lacks stay in the lake" in done.stderr) == (1, True), done.stderr
    resting.assert_same_rows()
    assert resting.query("select count(*) from thermocline.partitions where capture_lost_at is not null") == [(1,)]
    resting.seam.execute("drop table public.events_2026_02")
    assert repair(resting).returncode == 0
    resting.assert_same_rows()


REWRITES = ["vacuum full public.events_2026_02", "cluster public.events_2026_02 using events_2026_02_pkey"]


@pytest.mark.conforms("C-173", "C-199")
@pytest.mark.parametrize("rewrite", REWRITES)
def test_deletes_that_nothing_captured_are_not_forgiven_by_a_rewrite_of_their_partition(
    resting: Spanning, rewrite: str
) -> None:
    heap = resting.session("public", autocommit=True)
    heap.execute("alter table public.events_2026_02 disable trigger all")
    write_heap_and_twin(resting, "delete from events where id in (150, 151)")
    heap.execute("alter table public.events_2026_02 enable always trigger thermocline_capture")
    heap.execute(rewrite.encode())
    assert whole(resting) == ["events_2026_01", "events_2026_03"]
    report = verify(resting.dsn, resting.name)
    assert [(verdict.range, verdict.drift_rows) for verdict in report.ranges if verdict.problem] == [
        ("public.events_2026_02", 2)
    ]
    assert "2 rows that the heap lacks, and nothing proves that they were deleted" in report.sentence
    done = repair(resting)
    assert (done.returncode, "2 rows that the heap lacks stay in the lake" in done.stderr) == (1, True), done.stderr
    assert resting.query("select name from thermocline.partitions where capture_lost_at is not null") == [
        ("events_2026_02",)
    ]
    resting.seam.execute("delete from public_all.events where id in (150, 151)")
    assert repair(resting).returncode == 0
    resting.assert_same_rows()
    assert resting.query("select count(*) from thermocline.partitions where capture_lost_at is not null") == [(0,)]


@pytest.mark.conforms("C-173", "C-201")
@pytest.mark.parametrize("what", TRUNCATIONS)
def test_history_that_a_truncate_left_comes_back_before_the_lake_goes(resting: Spanning, what: str) -> None:
    resting.both("update events set v = v + 1 where id in (20, 150, 270) returning *")
    truncate(resting, what)
    resting.both("insert into events (id, ts, v) values (9100, '2026-02-11 00:00+00', 1) returning *")
    resting.both("delete from events where id in (21, 151) returning id")
    unregister_spanning(resting, restore_heap=True, drop_lake=True)
    assert_heap_is_twin(resting)
    assert read_partitions(resting) == [f"events_2026_0{month}" for month in range(1, 5)]


@pytest.mark.conforms("C-201")
@pytest.mark.parametrize(
    "way", ["truncate public.events_2026_02", "alter table public.events detach partition public.events_2026_02"]
)
def test_a_partition_emptied_while_history_is_brought_back_is_filled_too(resting: Spanning, way: str) -> None:
    resting.seam.execute("truncate public.events_2026_01")
    sentences: list[str] = []

    def meanwhile(reported: str | Progress) -> None:
        if isinstance(reported, str):
            sentences.append(reported)
            if len(sentences) == 1:
                resting.seam.execute(way.encode())

    unregister_spanning(resting, restore_heap=True, drop_lake=True, report_progress=meanwhile)
    assert len(sentences) == 2
    assert_heap_is_twin(resting)


@pytest.mark.conforms("C-201")
def test_rows_deleted_while_their_partition_was_detached_stay_as_history_in_a_restored_heap(resting: Spanning) -> None:
    detach_and_attach(
        resting,
        "delete from public.events_2026_02 where id < 150; update public.events_2026_02 set v = 4711 where id = 160",
    )
    resting.twin.execute("update events set v = 4711 where id = 160")
    assert whole(resting) == ["events_2026_01", "events_2026_03"]
    assert verify(resting.dsn, resting.name).is_exact
    unregister_spanning(resting, restore_heap=True)
    assert_heap_is_twin(resting)
    write_heap_and_twin(resting, "update events set v = v + 1 where id = 155")
    adopt_lake(resting)
    resting.assert_same_rows()
    resting.tier()
    resting.assert_same_rows()


@pytest.mark.conforms("C-202")
def test_a_lake_is_not_taken_up_over_a_partition_that_was_out_of_the_table_for_a_time(resting: Spanning) -> None:
    detach_and_attach(resting, "delete from public.events_2026_02 where id < 150")
    unregister_spanning(resting, fold_first=True)
    with pytest.raises(LakeNotAdoptable, match=r"public\.events_2026_02 .*only some rows"):
        adopt_lake(resting)


@pytest.mark.conforms("C-201")
@pytest.mark.parametrize(
    "way", ["drop table public.events_2026_02", "alter table public.events detach partition public.events_2026_02"]
)
def test_with_keep_heap_a_partition_that_left_by_hand_comes_back_before_the_lake_goes(kept: Spanning, way: str) -> None:
    kept.both("update events set v = v + 1 where id in (20, 150, 270, 390) returning *")
    kept.seam.execute(way.encode())
    kept.assert_same_rows()
    for plan in (False, True):
        with pytest.raises(HeapLacksRows, match="112 rows"):
            unregister_spanning(kept, drop_lake=True, dry_run=plan)
    assert unregister_spanning(kept, dry_run=True).notes == (ONLY_COPY,)
    report = unregister_spanning(kept, restore_heap=True, drop_lake=True)
    assert report.rows_restored == 112
    assert_heap_is_twin(kept)


@pytest.mark.conforms("C-201")
def test_with_keep_heap_a_partition_dropped_at_the_last_moment_keeps_the_lake(
    kept: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = unregister_module._lock

    def drop_and_lock(conn: Connection, objects: SeamObjects) -> None:
        kept.seam.execute("drop table if exists public.events_2026_02")
        lock(conn, objects)

    monkeypatch.setattr(unregister_module, "_lock", drop_and_lock)
    with pytest.raises(WrittenDuringRestore):
        unregister_spanning(kept, drop_lake=True)
    kept.assert_same_rows()
    unregister_spanning(kept, restore_heap=True, drop_lake=True)
    assert_heap_is_twin(kept)


@pytest.mark.conforms("C-201")
@pytest.mark.parametrize("keep_heap", [True, False])
def test_a_partition_that_a_crash_empties_is_not_whole_and_does_not_move(
    make_spanning: Callable[..., Spanning], keep_heap: bool
) -> None:
    spanning = make_spanning(keep_heap=True) if keep_heap else make_spanning(reclaim_lag="400d")
    spanning.seam.execute("alter table public.events_2026_02 set unlogged")
    said = spanning.tier()
    assert said.moved == ["public.events_2026_01"]
    assert "partition public.events_2026_02 is unlogged" in " ".join(said.notes)
    spanning.seam.execute("alter table public.events_2026_02 set logged")
    assert len(spanning.tier().moved) == 2
    assert whole(spanning) == [f"events_2026_0{month}" for month in (1, 2, 3)]
    spanning.seam.execute("alter table public.events_2026_02 set unlogged")
    # A seal over the file that is unlogged now: what a partition that was sealed unlogged has.
    spanning.seam.execute(
        "update thermocline.partitions set seal_file = pg_relation_filenode(relid) where state = 'tiered'"
    )
    assert whole(spanning) == ["events_2026_01", "events_2026_03"]


@pytest.mark.conforms("C-139")
def test_with_keep_heap_the_report_says_whether_the_heap_has_every_row(kept: Spanning) -> None:
    assert unregister_spanning(kept, dry_run=True).notes == (WHOLE_HEAP,)
    detach_and_attach(kept, "select")
    assert unregister_spanning(kept, dry_run=True).notes == (WHOLE_HEAP,), (
        "nothing was lost, though nothing proves it but a look"
    )
    detach_and_attach(kept, "delete from public.events_2026_02 where id < 150")
    assert unregister_spanning(kept).notes == (ONLY_COPY,)


@pytest.mark.conforms("C-139", "C-204")
def test_with_keep_heap_a_restore_makes_partitions_of_the_spills_rows(kept: Spanning) -> None:
    kept.both("insert into events (id, ts, v) values (9001, '2019-05-05 00:00+00', 1) returning *")
    with pytest.raises(DeltaNotEmpty, match="1 rows in the spill"):
        unregister_spanning(kept)
    kept.both("update events set v = v + 1 where id in (20, 9001) returning *")
    unregister_spanning(kept, restore_heap=True)
    assert_heap_is_twin(kept)
    adopt_lake(kept, keep_heap=True)
    kept.tier()
    kept.assert_same_rows()
    assert_heap_is_twin(kept)


def write_uncaptured(spanning: Spanning, *statements: str) -> None:
    """Write to the spill as `pg_restore --disable-triggers` does."""
    (spill,) = spanning.query("select format('%I.%I', spill_schema, spill_name) from thermocline.tables")[0]
    spanning.seam.execute(f"alter table {spill} disable trigger all".encode())
    for statement in statements:
        write_heap_and_twin(spanning, statement)
    for trigger in ("thermocline_capture", "thermocline_capture_truncate"):
        spanning.seam.execute(f"alter table {spill} enable always trigger {trigger}".encode())


LATE = "insert into events (id, ts, v) values (9001, '2025-06-01 00:00+00', 1)"


@pytest.mark.conforms("C-199")
def test_rows_written_to_the_spill_while_its_capture_was_off_are_found_and_captured(resting: Spanning) -> None:
    resting.both("insert into events (id, ts, v) values (9000, '2025-05-01 00:00+00', 1) returning *")
    write_uncaptured(resting, LATE, "update events set v = 2 where id = 9000")
    assert resting.query("select spill_capture_lost_at is not null from thermocline.tables") == [(True,)]
    assert "verify --repair" in " ".join(resting.tier().deferred)
    found = {finding.check: finding for finding in examine(resting.settings)}["capture"]
    assert (found.verdict, "public.events" in found.seen) == ("red", True)
    report = verify(resting.dsn, resting.name)
    assert [(verdict.range, verdict.drift_rows) for verdict in report.ranges if verdict.problem] == [
        ("before every partition", 2)
    ]
    done = repair(resting)
    assert done.returncode == 0, done.stderr
    resting.assert_same_rows()
    assert resting.query("select spill_capture_lost_at is null from thermocline.tables") == [(True,)]
    assert {finding.check: finding.verdict for finding in examine(resting.settings)}["capture"] == "ok"
    resting.fold()
    resting.assert_same_rows()
    assert verify(resting.dsn, resting.name).is_exact


def test_rows_ahead_of_the_grid_that_were_not_captured_are_not_hidden_when_the_line_passes(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(reclaim_lag="400d")
    spanning.tier()
    write_uncaptured(spanning, "insert into events (id, ts, v) values (9001, '2026-05-10 00:00+00', 1)")
    spanning.assert_same_rows()
    assert not verify(spanning.dsn, spanning.name).is_exact
    assert repair(spanning).returncode == 0
    spanning.seam.execute(
        "create table public.june partition of public.events for values from ('2026-06-01 00:00Z') to "
        "('2026-07-01 00:00Z')"
    )
    spanning.both(
        "insert into events (id, ts, v) values (9004, '2026-06-10 00:00+00', 1), (9005, '2026-07-10 00:00+00', 1)"
    )
    assert len(spanning.tier().moved) == 2
    spanning.assert_same_rows()


def test_nothing_moves_over_rows_of_the_spill_that_were_not_captured(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(reclaim_lag="400d")
    spanning.tier()
    write_uncaptured(spanning, "insert into events (id, ts, v) values (9001, '2026-05-10 00:00+00', 1)")
    spanning.seam.execute(
        "create table public.june partition of public.events for values from ('2026-06-01 00:00Z') to "
        "('2026-07-01 00:00Z')"
    )
    spanning.both(
        "insert into events (id, ts, v) values (9004, '2026-06-10 00:00+00', 1), (9005, '2026-07-10 00:00+00', 1)"
    )
    said = spanning.tier()
    assert (said.moved, "nothing moves, for 1 rows of the spill" in " ".join(said.deferred)) == ([], True)
    spanning.assert_same_rows()
    assert repair(spanning).returncode == 0
    assert len(spanning.tier().moved) == 2
    spanning.assert_same_rows()


def test_a_capture_that_is_off_is_told_by_the_cycle_and_by_doctor(resting: Spanning) -> None:
    (spill,) = resting.query("select format('%I.%I', spill_schema, spill_name) from thermocline.tables")[0]
    resting.seam.execute(f"drop trigger thermocline_capture on {spill}".encode())
    assert "capture trigger" in " ".join(resting.tier().deferred)
    found = {finding.check: finding for finding in examine(resting.settings)}["capture"]
    assert (found.verdict, spill in found.seen) == ("red", True)


@pytest.mark.conforms("C-201")
def test_a_heap_is_not_restored_while_the_spill_holds_rows_that_were_not_captured(resting: Spanning) -> None:
    write_uncaptured(resting, LATE)
    with pytest.raises(SpillNotCaptured, match=r"1 rows .* were not captured"):
        unregister_spanning(resting, restore_heap=True, drop_lake=True)
    assert repair(resting).returncode == 0
    unregister_spanning(resting, restore_heap=True, drop_lake=True)
    assert_heap_is_twin(resting)


@pytest.mark.conforms("C-201")
def test_a_row_of_the_spill_that_reads_the_same_from_the_lake_does_not_keep_a_heap_from_being_restored(
    resting: Spanning,
) -> None:
    (spill,) = resting.query("select format('%I.%I', spill_schema, spill_name) from thermocline.tables")[0]
    resting.alter("add column f double precision")
    write_heap_and_twin(
        resting, "insert into events (id, ts, v, f) values (9001, '2025-06-01 00:00+00', 1, -'NaN'::float8)"
    )
    resting.seam.execute(
        "create function public.keep() returns trigger language plpgsql as 'begin return null; end';"
        f" create trigger keep before delete on {spill} for each row execute function public.keep();"
        f" alter table {spill} enable always trigger keep".encode()
    )
    resting.fold()
    assert resting.query(f"select count(*) from {spill}") == [(1,)]
    unregister_spanning(resting, restore_heap=True, drop_lake=True)
    assert_heap_is_twin(resting)


def test_a_loss_of_capture_outlives_the_binding_to_another_database(resting: Spanning) -> None:
    resting.seam.execute(
        "update thermocline.partitions set capture_lost_at = '2026-01-01 00:00+00' where name = 'events_2026_02'"
    )
    resting.seam.execute("update thermocline.tables set spill_capture_lost_at = '2026-01-01 00:00+00'")
    resting.seam.execute("select thermocline.bind_table(id) from thermocline.tables")
    assert resting.query("select name from thermocline.partitions where capture_lost_at is not null") == [
        ("events_2026_02",)
    ]
    assert resting.query("select count(*) from thermocline.tables where spill_capture_lost_at is not null") == [(1,)]


def test_an_unregistration_locks_partitions_ahead_of_the_delta_as_their_writers_do(resting: Spanning) -> None:
    writer, leaver = resting.session("public"), resting.session("public")
    change = b"update public.events_2026_02 set v = v + 1 where id = 150"
    writer.execute(change)  # the first write of a session by this name asks for the heap, whose bounds it reads
    writer.commit()
    writer.execute("set lock_timeout = '3s'; lock table public.events_2026_02 in row exclusive mode")
    waiting = threading.Thread(target=unregister_module._lock, args=(leaver, plan_objects(resting.name, None)))
    waiting.start()
    while resting.query(
        "select count(*) from pg_locks where not granted and relation = 'public.events_2026_02'::regclass"
    ) == [(0,)]:
        time.sleep(0.02)
    writer.execute(change)
    writer.commit()
    waiting.join(30)
    leaver.rollback()
    resting.twin.execute("update events set v = v + 2 where id = 150")
    resting.assert_same_rows()


def test_a_repair_does_not_queue_in_front_of_writers(resting: Spanning) -> None:
    holder = resting.session("public")
    holder.execute("lock table public.events_2026_02 in access exclusive mode")
    with pytest.raises(LockNotGranted, match=r"The lock to read public\.events was not granted within 1000 ms"):
        repair_ranges(resting.dsn, resting.name, ["public.events_2026_02"], resting.settings)
    holder.rollback()
    assert repair_ranges(resting.dsn, resting.name, ["public.events_2026_02"], resting.settings).rows == 0
