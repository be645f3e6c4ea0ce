"""Commits of the lake: exactly on the base that was looked at, once per range, and never in doubt for longer than it
must be."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.spark.lake_database import LakeDatabase

from thermocline.core.axis import AXIS_MAX, AXIS_MIN
from thermocline.core.names import TableName
from thermocline.errors import CommitInconsistent, CommitUnknown, LakeTableMissing, LostRace, RangeAlreadyInLake
from thermocline.lake.commit.compare_and_swap import (
    FENCE_PROPERTY,
    KeyRange,
    OpStamp,
    append_range,
    check_range_is_new,
    fence,
    find_op,
    load_table,
    settle,
)
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database

EVENTS = TableName("public", "events")
JANUARY = KeyRange(column="ts", low=1_767_225_600_000_000, high=1_769_904_000_000_000)
FEBRUARY = KeyRange(column="ts", low=1_769_904_000_000_000, high=1_772_323_200_000_000)


def stamp(t: int | None = 7) -> OpStamp:
    return OpStamp(op_id=str(uuid.uuid4()), kind="tier", table_id=42, t=t)


@pytest.fixture
def january(lake_database: LakeDatabase) -> Any:
    """A heap of one month, its lake table, and the files of a finished copy that nobody committed yet."""
    lake_database.run(
        "create table public.events (id bigint not null, ts timestamptz not null, kind text);"
        "insert into public.events select i, '2026-01-01'::timestamptz + i * interval '10 min', 'kind ' || i"
        " from generate_series(0, 4000) i"
    )
    columns = lake_database.columns(EVENTS, ("id", "ts"))
    lake_database.make_lake(EVENTS, columns, "month", "ts")
    return lake_database.copy(load_table(lake_database.spark, EVENTS), columns, "ts").files


def lake_rows(lake_database: LakeDatabase) -> int:
    return int(lake_database.lake_row(EVENTS, "true", "count(*)")[0])


def test_a_commit_carries_the_stamp_of_its_op(lake_database: LakeDatabase, january: Any) -> None:
    mine = stamp()
    snapshot = append_range(load_table(lake_database.spark, EVENTS), january, mine, JANUARY)
    head = load_table(lake_database.spark, EVENTS)
    assert (head.snapshot_id, find_op(head, mine.op_id), find_op(head, "another")) == (snapshot, snapshot, None)
    told = lake_database.spark.sql("select explode(summary) from thermocline.public.events.snapshots").collect()
    summary = {row[0]: row[1] for row in told}
    assert {key: summary[key] for key in mine.summary()} == mine.summary()
    assert lake_database.rows("select distinct catalog_name from thermocline_iceberg.iceberg_tables") == [
        ("thermocline",)
    ]


def test_what_a_commit_wrote_beside_its_data_is_on_disk_before_anybody_builds_on_it(
    lake_database: LakeDatabase, january: Any, on_flush: Callable[[Callable[[Path], object]], None]
) -> None:
    flushed: set[Path] = set()
    heads: dict[Path, Any] = {}
    on_flush(flushed.add)
    on_flush(
        lambda path: heads.setdefault(
            path, lake_database.rows("select metadata_location from thermocline_iceberg.iceberg_tables")
        )
    )
    mine, before = stamp(), load_table(lake_database.spark, EVENTS)
    append_range(before, january, mine, JANUARY)
    head = load_table(lake_database.spark, EVENTS)
    (snapshot,) = head.metadata["snapshots"]
    manifests = lake_database.spark.sql("select path from thermocline.public.events.manifests").collect()
    needed = {
        Path(without_file_scheme(p))
        for p in (head.metadata_location, snapshot["manifest-list"], *(row.path for row in manifests))
    }
    assert len(needed) == 3
    assert needed <= flushed
    for path in needed - {Path(without_file_scheme(head.metadata_location))}:
        assert heads[path] == [(before.metadata_location,)], f"{path} was flushed before the head named it"
    flushed.clear()
    assert settle(lake_database.spark, EVENTS, mine.op_id) == head.snapshot_id
    assert needed <= flushed, "found after a crash"


def test_files_are_pruned_by_their_bounds_and_partitions(lake_database: LakeDatabase, january: Any) -> None:
    append_range(load_table(lake_database.spark, EVENTS), january, stamp(), JANUARY)
    files = lake_database.spark.sql("select * from thermocline.public.events.files").collect()
    assert {
        f.file_path: (f.record_count, f.file_size_in_bytes, f.partition.ts_part, tuple(f.split_offsets)) for f in files
    } == {file.path: (file.rows, file.size_bytes, file.partition.ordinal, file.split_offsets) for file in january}
    assert all(set(f.lower_bounds) == set(f.upper_bounds) == {1, 2, 3} for f in files)


def test_a_commit_repeated_with_the_same_op_is_the_same_commit(lake_database: LakeDatabase, january: Any) -> None:
    mine = stamp()
    first = append_range(load_table(lake_database.spark, EVENTS), january, mine, JANUARY)
    assert append_range(load_table(lake_database.spark, EVENTS), january, mine, JANUARY) == first
    assert lake_rows(lake_database) == 4001


def test_a_range_enters_the_lake_once(lake_database: LakeDatabase, january: Any) -> None:
    append_range(load_table(lake_database.spark, EVENTS), january, stamp(), JANUARY)
    with pytest.raises(RangeAlreadyInLake, match="already has rows with ts"):
        append_range(load_table(lake_database.spark, EVENTS), january, stamp(), JANUARY)
    assert lake_rows(lake_database) == 4001


@pytest.mark.parametrize("more", [-1, 1])
def test_a_file_with_other_rows_than_were_written_is_not_committed(
    lake_database: LakeDatabase, january: Any, more: int
) -> None:
    first, *others = january
    head = load_table(lake_database.spark, EVENTS)
    with pytest.raises(CommitInconsistent, match=f"has {first.rows} rows, and {first.rows + more} were written"):
        append_range(head, [replace(first, rows=first.rows + more), *others], stamp(), JANUARY)
    assert load_table(lake_database.spark, EVENTS).metadata_location == head.metadata_location


@pytest.mark.parametrize(
    ("low", "high", "is_new"),
    [
        (AXIS_MIN, JANUARY.low, True),
        (AXIS_MIN, JANUARY.low + 1, False),
        (AXIS_MIN, AXIS_MAX, False),
        (FEBRUARY.low, AXIS_MAX, True),
        (0, 1, True),
        (-1, 0, True),
        (JANUARY.low, JANUARY.low + 1, False),
    ],
)
def test_the_conflict_check_reads_bounds_on_the_axis(
    lake_database: LakeDatabase, january: Any, low: int, high: int, is_new: bool
) -> None:
    # Rows up to 28 January; what lies beyond the last file's upper bound is new.
    append_range(load_table(lake_database.spark, EVENTS), january, stamp(), JANUARY)
    wanted = KeyRange(column="ts", low=low, high=high)
    if is_new:
        check_range_is_new(load_table(lake_database.spark, EVENTS), wanted)
    else:
        with pytest.raises(RangeAlreadyInLake):
            check_range_is_new(load_table(lake_database.spark, EVENTS), wanted)


def test_a_zombie_that_looked_before_another_commit_cannot_commit(lake_database: LakeDatabase, january: Any) -> None:
    zombie = load_table(lake_database.spark, EVENTS)
    winner = append_range(load_table(lake_database.spark, EVENTS), [], stamp(), FEBRUARY)
    with pytest.raises(LostRace):
        append_range(zombie, january, stamp(), JANUARY)
    assert (load_table(lake_database.spark, EVENTS).snapshot_id, lake_rows(lake_database)) == (winner, 0)


def test_a_fence_stops_whoever_looked_before_it(lake_database: LakeDatabase, january: Any) -> None:
    zombie, mine = load_table(lake_database.spark, EVENTS), stamp()
    fence(load_table(lake_database.spark, EVENTS), mine.op_id)
    with pytest.raises(LostRace):
        append_range(zombie, january, mine, JANUARY)
    head = load_table(lake_database.spark, EVENTS)
    assert (head.properties[FENCE_PROPERTY], head.snapshot_id) == (mine.op_id, None)


def test_a_fence_on_an_old_look_is_a_lost_race(lake_database: LakeDatabase, january: Any) -> None:
    old = load_table(lake_database.spark, EVENTS)
    append_range(load_table(lake_database.spark, EVENTS), january, stamp(), JANUARY)
    with pytest.raises(LostRace):
        fence(old, "late")
    assert FENCE_PROPERTY not in load_table(lake_database.spark, EVENTS).properties


def test_settling_tells_a_committed_op_from_one_that_never_will(lake_database: LakeDatabase, january: Any) -> None:
    done, never = stamp(), stamp()
    zombie = load_table(lake_database.spark, EVENTS)
    assert settle(lake_database.spark, EVENTS, never.op_id) is None
    with pytest.raises(LostRace):
        append_range(zombie, january, never, JANUARY)
    snapshot = append_range(load_table(lake_database.spark, EVENTS), january, done, JANUARY)
    assert settle(lake_database.spark, EVENTS, done.op_id) == snapshot


def test_of_many_commits_at_once_exactly_one_wins(lake_database: LakeDatabase, january: Any) -> None:
    heads = [load_table(lake_database.spark, EVENTS) for _ in range(4)]
    outcomes: list[object] = []

    def attempt(head: Any) -> None:
        try:
            outcomes.append(append_range(head, january, stamp(), JANUARY))
        except (LostRace, RangeAlreadyInLake) as lost:
            outcomes.append(lost)

    threads = [threading.Thread(target=attempt, args=(head,)) for head in heads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([outcome for outcome in outcomes if isinstance(outcome, int)]) == 1
    assert lake_rows(lake_database) == 4001


def test_a_lost_connection_in_the_middle_of_a_commit_leaves_the_outcome_unknown_until_it_is_settled(
    lake_database: LakeDatabase, january: Any
) -> None:
    mine, head = stamp(), load_table(lake_database.spark, EVENTS)
    outcome: list[BaseException | int] = []

    def attempt() -> None:
        try:
            outcome.append(append_range(head, january, mine, JANUARY))
        except BaseException as problem:
            outcome.append(problem)

    with (
        closing(connect(lake_database.dsn)) as holder,
        closing(connect(with_database(lake_database.dsn, "postgres"), autocommit=True)) as outside,
    ):
        holder.execute("select 1 from thermocline_iceberg.iceberg_tables for update")
        thread = threading.Thread(target=attempt)
        thread.start()
        _wait_for_blocked_commit(outside, holder.info.dbname)
        _allow_connections(outside, holder.info.dbname, allowed=False)
        outside.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> %s",
            [holder.info.dbname, holder.info.backend_pid],
        )
        thread.join(120)
        holder.rollback()
        _allow_connections(outside, holder.info.dbname, allowed=True)
    assert isinstance(outcome[0], CommitUnknown)
    assert settle(lake_database.spark, EVENTS, mine.op_id) is None
    assert append_range(load_table(lake_database.spark, EVENTS), january, mine, JANUARY) == find_op(
        load_table(lake_database.spark, EVENTS), mine.op_id
    )
    assert lake_rows(lake_database) == 4001


def _wait_for_blocked_commit(conn: psycopg.Connection[Any], dbname: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if conn.execute(
            (
                "select 1 from pg_stat_activity where datname = %s and wait_event_type = 'Lock' and query ilike "
                "'update%%iceberg_tables%%'"
            ),
            [dbname],
        ).fetchone():
            return
        time.sleep(0.05)
    raise AssertionError("no commit came to wait for the lock")


def _allow_connections(conn: psycopg.Connection[Any], dbname: str, *, allowed: bool) -> None:
    conn.execute(sql.SQL("alter database {} allow_connections {}").format(sql.Identifier(dbname), sql.Literal(allowed)))


def test_a_lake_table_that_is_not_there_is_named(lake_database: LakeDatabase) -> None:
    with pytest.raises(LakeTableMissing, match=r"public\.nothing"):
        load_table(lake_database.spark, TableName("public", "nothing"))
