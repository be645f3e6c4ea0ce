"""Compaction of Iceberg tables that Postgres does not know."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from tests.maintenance_ops import run_compact
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import EAGER, Lake
from tests.spark.racing_append import RacingSpark, rows_of

from thermocline.core.policy.policy import Policy
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.operations import compact as compact_module

SEAWEEDFS = Policy(
    preset="seaweedfs",
    rewrite_min_input_files=5,
    min_input_scope="partition",
    rebase=False,
    splice_min_row_group_bytes=0,
)


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Lake:
    return Lake.make(lake_database, "id bigint, region string, v double", partitioned="region")


def on_disk(lake: Lake) -> set[str]:
    return {file.path for file in lake.seen().data if Path(file.path.removeprefix("file:")).exists()}


@pytest.mark.conforms("M-061", "M-132", "M-071")
def test_six_files_become_one_and_the_snapshot_before_still_reads_six(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, v double")
    assert lake.compact().sentence == "no current snapshot"
    lake.append([(at, at / 7) for at in range(600)], files=6)
    before, originals, rows = lake.head().snapshot_id, on_disk(lake), lake.rows()
    told = lake.compact()
    assert (told.status, told.sentence) == ("done", "compacted 6 files into 1 (across 1 bins)")
    assert {
        key: told.counters[key] for key in ("files_merged", "files_written", "bins", "rows_read", "rows_written")
    } == {
        "files_merged": 6,
        "files_written": 1,
        "bins": 1,
        "rows_read": 600,
        "rows_written": 600,
    }
    assert lake.rows() == rows
    assert sorted(status for status, _, _ in lake.entries()) == [1, 2, 2, 2, 2, 2, 2]
    assert len(lake.head().metadata["snapshots"]) == 2
    assert all(Path(path.removeprefix("file:")).exists() for path in originals)
    summary = lake.summary()
    assert summary["operation"] == "replace"
    assert {"thermocline.op-id", "added-files-size", "removed-files-size", "total-records"} <= summary.keys()
    for version, files in ((f" version as of {before}", 6), ("", 1)):
        assert lake_database.spark.sql(f"select count(distinct _file) from {lake.sql_name}{version}").collect() == [
            (files,)
        ]
    assert lake.staged() == []
    again = lake.compact()
    assert (again.status, again.sentence) == ("skipped", "no files eligible for compaction")


@pytest.mark.conforms("M-062", "M-070")
def test_partitions_are_compacted_apart_in_one_commit_and_planning_again_gives_nothing(lake: Lake) -> None:
    lake.append(rows_of(*range(100)), files=5)
    lake.append(rows_of(*range(50), region="eu"), files=2)
    rows = lake.rows()
    lake.policy = SEAWEEDFS
    told = lake.compact()
    assert told.sentence == "compacted 5 files into 1 (across 1 bins)"
    assert sorted(file.partition for file in lake.seen().data) == [("eu",), ("eu",), ("us",)]
    assert lake.compact().details == ("largest group: 2 files, needs 5",)
    lake.policy = replace(EAGER, min_input_scope="table", rewrite_min_input_files=8)
    lake.append(
        [*rows_of(*range(100, 140)), *rows_of(*range(100, 140), region="eu"), *rows_of(*range(9), region="ap")], files=3
    )
    told = lake.compact()
    assert (told.sentence, told.counters["commits"]) == ("compacted 12 files into 3 (across 3 bins)", 1)
    assert len(lake.rows()) == len(rows) + 89
    assert lake.compact().status == "skipped"
    lake.delete_rows({lake.seen().data[0].path: [0]}, like=lake.seen().data[0].path)
    assert (
        lake.compact(apply_deletes=False).sentence
        == "compaction skipped: delete manifests present and apply_deletes is disabled"
    )


@pytest.mark.conforms("M-124", "M-125")
def test_a_head_that_moved_is_rebased_on_or_makes_the_plan_stale(lake: Lake) -> None:
    lake.append(rows_of(*range(60)), files=6)
    lake.policy = SEAWEEDFS
    moved: list[str] = []

    def append(line: object) -> None:
        if str(line).startswith("compact bin") and not moved:
            moved.append(str(line))
            lake.append(rows_of(1000))

    told = lake.compact(report_progress=append)
    assert (told.status, told.sentence) == ("failed", "stale plan: table head changed since planning")
    assert len(lake.seen().data) == 7
    moved.clear()
    lake.policy = EAGER
    told = lake.compact(report_progress=append)
    assert (told.status, told.counters["files_merged"]) == ("done", 7)
    assert len(lake.seen().data) == 2
    assert len(lake.rows()) == 62


def test_manifests_rewritten_while_a_bin_ran_cost_it_nothing(lake: Lake) -> None:
    """The files that leave were picked from manifests that are no longer the table's."""
    for number in range(3):
        lake.append(rows_of(number))
    moved: list[str] = []

    def rewrite(line: object) -> None:
        if str(line).startswith("compact bin") and not moved:
            moved.append(str(line))
            lake.spark.sql(
                f"call thermocline.system.rewrite_manifests('{lake.name.schema}.{lake.name.table}')"
            ).collect()

    told = lake.compact(report_progress=rewrite)
    assert (told.status, told.counters["files_merged"], len(moved)) == ("done", 3, 1)
    assert len(lake.seen().data) == 1
    assert sorted(row[0] for row in lake.rows()) == [0, 1, 2]


@pytest.mark.conforms("M-127", "M-195")
def test_lost_races_are_run_again_with_the_files_written_until_the_attempts_are_used_up(lake: Lake) -> None:
    lake.append(rows_of(*range(40)), files=4)
    for attempts, races, status in ((2, 9, "failed"), (4, 3, "done")):
        racing = RacingSpark(lake, races)
        with lake.context(policy={"max_commit_retries": attempts}, report_progress=racing.start) as context:
            told = run_compact(replace(context, spark=racing))
        assert told.status == status, told
        if status == "failed":
            assert told.sentence == "compaction commit failed after retries"
            assert len(lake.staged()) == 1
        else:
            assert told.counters["conflicts"] >= 1
            assert told.counters["files_reused"] == told.counters["conflicts"]
            assert told.counters["bytes_written"] < 2 * max(file.size_bytes for file in lake.seen().data) + 1
        assert {row[0] for row in lake.rows()} >= {*range(40)}


@pytest.mark.conforms("M-073", "M-205")
def test_a_damaged_file_fails_its_bin_alone_and_all_bins_failed_is_a_failure(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    lake.append(rows_of(*range(20), region="eu"), files=2)
    broken = next(file.path for file in lake.seen().data if file.partition == ("us",))
    Path(broken.removeprefix("file:")).write_bytes(b"ORC" + b"\x00" * 500)
    told = lake.compact()
    assert (told.status, told.sentence) == ("done", "compacted 2 files into 1 (across 1 bins)")
    assert any(broken in line for line in told.details)
    again = lake.compact()
    assert again.status == "failed"
    assert broken in again.sentence


@pytest.mark.conforms("M-206")
def test_the_first_format_is_compacted_and_an_unknown_one_is_refused_by_its_number(lake_database: LakeDatabase) -> None:
    lake_database.spark.sql("create namespace if not exists thermocline.db")
    lake_database.spark.sql(
        "create table thermocline.db.old (id bigint, v double) using iceberg tblproperties ('format-version' = '1')"
    )
    old = Lake.adopt(lake_database, "old")
    old.append([(at, 0.5) for at in range(20)], files=4)
    rows = old.rows()
    assert old.compact().sentence == "compacted 4 files into 1 (across 1 bins)"
    assert old.rows() == rows
    old.run("alter table {t} set tblproperties ('format-version' = '4')")
    refused = old.compact()
    assert refused.status == "failed"
    assert "format version 4" in refused.sentence


@pytest.mark.conforms("M-067", "M-085", "M-092")
def test_overlapping_files_are_sorted_once_by_the_tables_order_and_left_then(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "payload_id int, sensor_kind string, v double")
    lake.run(
        "insert into {t} select cast(rand(7) * 64 as int), concat('k', id % 3), rand() from range(0, 400000, 1, 8)"
    )
    refused = lake.compact(rewrite_strategy="sort")
    assert (refused.status, refused.sentence) == ("failed", "sort rewrite requires a table sort order")
    assert lake.compact(rewrite_strategy="auto", dry_run=True).details[-1].startswith("the table has no sort order")
    lake.run("alter table {t} write ordered by payload_id, sensor_kind")
    totals = f"select count(*), sum(payload_id), count(distinct v) from {lake.sql_name}"
    rows = lake.spark.sql(totals).collect()
    size = sum(file.size_bytes for file in lake.seen().data)
    told = lake.compact(rewrite_strategy="sort", rewrite_target_bytes=size // 4, small_file_threshold_bytes=1)
    assert told.status == "done", told
    assert told.sentence.endswith(" using sort (payload_id asc nulls-first, sensor_kind asc nulls-first)")
    assert lake.spark.sql(totals).collect() == rows
    files = lake.spark.sql(
        "select readable_metrics.payload_id.lower_bound, readable_metrics.payload_id.upper_bound, "
        f"sort_order_id from {lake.sql_name}.files"
    ).collect()
    spans = sorted((row[0], row[1]) for row in files)
    assert len(spans) > 1
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert {row[2] for row in files} == {1}
    assert (
        lake.compact(rewrite_strategy="sort", rewrite_target_bytes=size // 4, small_file_threshold_bytes=1).status
        == "skipped"
    )


@pytest.mark.conforms("M-088")
def test_other_orders_directions_and_curves_are_kept_and_left_once_made(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "a int, b string, c double")
    lake.append([(at % 50 if at % 11 else None, f"k{at * 13 % 100:02}", at / 3) for at in range(2000)], files=5)
    rows = lake.spark_rows()
    told = lake.compact(rewrite_strategy="sort", sort_order="a desc nulls-last")
    assert told.sentence == "compacted 5 files into 1 (across 1 bins) using sort (a desc nulls-last)"
    assert lake.compact(rewrite_strategy="sort", sort_order="a desc nulls-last").status == "skipped"
    (file,) = lake.seen().data
    values = [row[0] for row in lake.spark.read.parquet(file.path).select("a").collect()]
    assert values == sorted(values, key=lambda value: (value is None, -(value or 0)))
    lake.append([(at % 50, f"k{at % 100:02}", at / 3) for at in range(2000)], files=3)
    rows = lake.spark_rows()
    for curve in ("zorder", "hilbert"):
        told = lake.compact(rewrite_strategy=curve, zorder_columns=("a", "b", "c"))
        assert told.sentence.endswith(f" using {curve} (a, b, c)")
        assert lake.spark_rows() == rows
        assert lake.compact(rewrite_strategy=curve, zorder_columns=("a", "b", "c")).status == "skipped"
        lake.append([(1, "x", 1.0), (2, "y", 2.0)], files=2)
        rows = lake.spark_rows()


@pytest.mark.conforms("M-210")
def test_after_a_rollback_and_beside_a_branch_the_commit_takes_the_next_sequence_number(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=3)
    kept = lake.head().snapshot_id
    lake.run("alter table {t} create branch audit")
    lake.append(rows_of(500))
    lake.run("insert into {t}.branch_audit values (900, 'us', 1.0)")
    lake.run(f"call thermocline.system.rollback_to_snapshot('db.events', {kept})")
    lake.run(
        "alter table {t} replace branch main as of version "
        + str(kept)
        + " retain 9 days with snapshot retention 3 snapshots"
    )
    last = lake.head().metadata["last-sequence-number"]
    rows = lake.rows()
    assert lake.compact().status == "done"
    told = lake.head().metadata
    assert told["last-sequence-number"] == last + 1
    assert told["refs"]["main"]["min-snapshots-to-keep"] == 3
    assert lake.rows() == rows
    assert {row[0] for row in lake.spark.sql(f"select id from {lake.sql_name}.branch_audit").collect()} == {
        *range(20),
        900,
    }


@pytest.mark.conforms("M-216", "M-134")
def test_where_names_a_day_and_windows_that_are_open_are_left(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, ts timestamp", partitioned="days(ts)")
    for day in ("2024-03-15", "2024-03-16"):
        lake.run(f"insert into {{t}} select id, timestamp '{day} 10:00:00' from range(0, 20, 1, 3)")
    told = lake.compact(where="ts_day = '2024-03-15'")
    assert told.counters["files_merged"] == 3
    assert lake.compact(where="ts = '2024-03-16'", dry_run=True).sentence == "would compact 3 files (across 1 bins)"
    lake.now = lake.now.replace(year=2024, month=3, day=17, hour=0, minute=30)
    sealed = lake.compact(sealed_after_ms=3_600_000)
    assert (sealed.status, sealed.details[0]) == ("skipped", "ts_day=2024-03-15 (spec 1): window not sealed")
    refused = lake.compact(where="id = 3")
    assert (refused.status, "no partition column" in refused.sentence) == ("failed", True)


def test_outputs_carry_what_sparks_own_writer_would_have_left(lake: Lake) -> None:
    lake.append(rows_of(*range(300)), files=3)
    before = lake.spark.sql(
        f"select column_sizes, value_counts, null_value_counts, lower_bounds, upper_bounds from {lake.sql_name}.files"
    ).collect()
    assert lake.compact().status == "done"
    (after,) = lake.spark.sql(
        f"select column_sizes, value_counts, null_value_counts, lower_bounds, upper_bounds from {lake.sql_name}.files"
    ).collect()
    for at, name in enumerate(("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")):
        assert set(after[at]) >= set(before[0][at]), name
    (task,) = (
        StaticTable.from_metadata(lake.head().metadata_location.replace("file:/", "file:///", 1)).scan().plan_files()
    )
    assert task.file.split_offsets is not None
    assert len(task.file.split_offsets) == 3
    assert read_lake_table(lake.head().metadata_location).files(lake.head().snapshot_id or 0).data[0].lower[1] == (
        0
    ).to_bytes(8, "little")


@pytest.mark.conforms("M-217")
def test_a_table_with_steady_commits_shrinks_from_pass_to_pass(lake: Lake) -> None:
    merged = 0
    for round_ in range(3):
        lake.append(rows_of(*range(round_ * 100, round_ * 100 + 50)), files=4)
        told = lake.compact(report_progress=lambda _: lake.append(rows_of(9000)))
        assert told.status == "done", told
        merged += told.counters["files_merged"]
        assert len(lake.seen().data) <= 3
    assert merged <= 4 * 3 + 2 * 3


def test_a_pause_keeps_what_is_finished(lake: Lake) -> None:
    lake.append([*rows_of(*range(40)), *rows_of(*range(40), region="eu")], files=2)
    asked: list[int] = []

    def why_pause() -> str | None:
        asked.append(1)
        return "paused: quiet window, resumes 2026-01-01 00:00 UTC" if len(asked) > 1 else None

    told = lake.compact(why_pause=why_pause, max_parallel_tasks=1)
    assert told.status == "paused"
    assert told.sentence.startswith("paused: quiet window")
    assert told.counters["bins"] == 1
    assert len(lake.rows()) == 80


@pytest.mark.conforms("M-121")
def test_finished_bins_are_committed_as_they_come(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_module, "_COMMIT_EVERY_SECONDS", 0)
    lake.append([row for region in ("us", "eu", "ap") for row in rows_of(*range(30), region=region)], files=2)
    rows = lake.rows()
    told = lake.compact(max_parallel_tasks=1)
    assert (told.status, told.counters["bins"], told.counters["commits"]) == ("done", 3, 3)
    assert lake.rows() == rows
    assert [found["summary"]["operation"] for found in lake.head().metadata["snapshots"]] == [
        "append",
        "replace",
        "replace",
        "replace",
    ]
