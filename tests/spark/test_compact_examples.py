"""Compaction by the acceptance list's own worked examples, from the plan to the rows that two engines read back."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.maintenance_ops import run_compact, run_expire_snapshots, run_rewrite_manifests
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake
from tests.spark.racing_append import RacingSpark, rows_of

from thermocline.cli.show import render_stats
from thermocline.core.policy.policy import Policy
from thermocline.maintain.lake_health import collect_health, read_health
from thermocline.maintain.operations import compact as compact_module
from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.settings import Settings

MODAK = Policy(splice_min_row_group_bytes=0)


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Lake:
    return Lake.make(lake_database, "id bigint, region string, v double", partitioned="region")


def append(lake: Lake, **files: int) -> None:
    """One commit with so many files in each region, ten rows each, ids in the order of the files."""
    for at, (region, count) in enumerate(files.items()):
        start = at * 10_000
        lake.run(
            f"insert into {{t}} select id, '{region}', id / 7 from range({start}, {start + 10 * count}, 1, {count})"
        )


def on_disk(lake: Lake) -> dict[Path, int]:
    folder = Path(without_file_scheme(lake.head().location))
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"}


@pytest.mark.conforms("M-064")
def test_eight_files_of_one_and_two_megabytes_become_one_and_the_snapshot_before_still_has_eight(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(lake_database, "id bigint, body string")
    start = 0
    for at, size in enumerate((1, 1, 2, 1, 1, 2, 1, 1)):
        rows = 1000 * size
        lake.run(f"insert into {{t}} select id, randstr(1400, {at}) from range({start}, {start + rows}, 1, 1)")
        start += rows
    before, sums = (
        lake.head().snapshot_id,
        f"select count(*), sum(id), sum(hash(body)), count(distinct _file) from {lake.sql_name}",
    )
    assert [file.size_bytes >> 20 for file in lake.seen().data] == [1, 1, 2, 1, 1, 2, 1, 1]
    (facts,) = lake.spark.sql(sums).collect()
    assert (facts[0], facts[3]) == (10_000, 8)
    lake.policy = MODAK
    assert lake.compact().sentence == "compacted 8 files into 1 (across 1 bins)"
    assert lake.spark.sql(f"{sums} version as of {before}").collect() == [facts]
    assert [tuple(row) for row in lake.spark.sql(sums).collect()] == [(*facts[:3], 1)]


@pytest.mark.conforms("M-065")
def test_fifteen_files_of_two_partitions_in_three_bins(lake: Lake) -> None:
    append(lake, us=10, eu=5)
    rows = lake.rows()
    target = int(5.5 * max(file.size_bytes for file in lake.seen().data))
    told = lake.compact(rewrite_target_bytes=target)
    assert told.sentence == "compacted 15 files into 3 (across 3 bins)"
    assert lake.rows() == rows
    assert sorted(file.partition for file in lake.seen().data) == [("eu",), ("us",), ("us",)]
    assert lake.compact(rewrite_target_bytes=target).status == "skipped"


@pytest.mark.conforms("M-066", "M-079")
def test_eight_small_files_of_three_partitions_in_one_commit_and_files_under_deletes_by_delete_compaction(
    lake: Lake,
) -> None:
    append(lake, us=3, eu=3, ap=2, sa=2)
    sa = [file.path for file in lake.seen().data if file.partition == ("sa",)]
    for path, places in ((sa[0], [0]), (sa[0], [1]), (sa[1], [0, 1, 2, 3])):
        lake.delete_rows({path: places}, like=path)
    rows = lake.spark_rows()
    lake.policy = replace(MODAK, delete_compaction_enabled=False)
    told = lake.compact()
    assert (told.sentence, told.counters["commits"]) == ("compacted 8 files into 3 (across 3 bins)", 1)
    assert {file.path for file in lake.seen().data if file.partition == ("sa",)} == set(sa)
    assert lake.rows() == rows
    lake.policy = replace(MODAK, rewrite_enabled=False)
    assert lake.compact(delete_compaction_min_deletes=3, delete_ratio_threshold=0.5).status == "skipped"
    few = lake.compact(delete_compaction_min_deletes=3, delete_ratio_threshold=0.4)
    assert (few.counters["delete_compacted_files"], few.counters["removed_delete_files"]) == (1, 1)
    assert lake.rows() == rows
    many = lake.compact(delete_compaction_min_deletes=2, delete_ratio_threshold=1)
    assert (many.counters["delete_compacted_files"], many.counters["removed_delete_files"]) == (1, 2)
    assert (lake.rows(), lake.seen().deletes) == (rows, ())


@pytest.mark.conforms("M-215")
def test_large_files_under_many_deletes_and_deletes_of_many_files_leave_no_debt_after_a_pass(lake: Lake) -> None:
    lake.run("insert into {t} select id, 'us', rand(7) from range(0, 900000, 1, 1)")
    append(lake, eu=3)
    (large,) = (file for file in lake.seen().data if file.partition == ("us",))
    eu = [file.path for file in lake.seen().data if file.partition == ("eu",)]
    for at in range(4):
        lake.delete_rows({large.path: [at, at + 1000]}, like=large.path)
    lake.delete_rows({path: [0, 3] for path in eu}, like=eu[0])
    lake.delete_rows({path: [5] for path in eu[1:]}, like=eu[0])
    sums = f"select region, count(*), sum(id), sum(hash(v)) from {lake.sql_name} group by region order by region"
    rows = lake.spark.sql(sums).collect()
    assert [row[1] for row in rows] == [22, 900_000 - 8]
    settings = Settings(dsn=lake.lake_database.dsn, warehouse=str(lake.lake_database.warehouse))
    with closing(lake.lake_database.connect()) as conn:
        conn.execute(
            (
                "update thermocline.lake_tables set maintenance_policy = "
                "jsonb_build_object('rewrite_target_bytes', %s::int)"
            ),
            [large.size_bytes // 3],
        )
    report = run_pass(
        lake.lake_database.dsn, lake.name, settings=settings, spark=lambda: lake.spark, request=PassRequest()
    )
    assert report.status == "done", report.sentence
    assert report.results["removed_delete_files"] == 6
    assert (lake.seen().deletes, lake.spark.sql(sums).collect()) == ((), rows)
    outputs = [file.size_bytes for file in lake.seen().data if file.partition == ("us",)]
    assert len(outputs) == 3
    assert all(0.75 <= size / (large.size_bytes // 3) <= 1.8 for size in outputs)


@pytest.mark.conforms("M-128")
def test_appends_between_all_bins_and_all_commits_do_not_stop_a_compaction(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In five minutes with an append each ten seconds there are thirty of them; here one comes at every bin and at
    every third commit."""
    monkeypatch.setattr(compact_module, "_COMMIT_EVERY_SECONDS", 0)
    append(lake, us=3, eu=3, ap=3)
    racing = RacingSpark(lake, 3)

    def report_progress(line: object) -> None:
        if str(line).startswith("compact bin"):
            racing.is_on = True
            lake.append(rows_of(9000))

    with lake.context(report_progress=report_progress, policy={"max_parallel_tasks": 1}) as context:
        told = run_compact(replace(context, spark=racing))
    assert (told.status, told.sentence) == ("done", "compacted 9 files into 3 (across 3 bins)"), told
    assert (told.counters["commits"], racing.left) == (3, 0)
    assert len(lake.rows()) == 90 + 3 + 3


@pytest.mark.conforms("M-197")
@pytest.mark.parametrize("spread", ["in order", "at random"])
def test_the_span_of_keys_does_not_rise_by_packing(lake_database: LakeDatabase, spread: str) -> None:
    """Files in the order of their keys: for the rows they hold. Files that overlap: as they are."""
    lake = Lake.make(lake_database, "id bigint, v double")
    hint = "" if spread == "in order" else "/*+ repartition(12) */"
    lake.run(f"insert into {{t}} select {hint} id, id / 7 from range(0, 12000, 1, 12)")

    def spans() -> list[tuple[int, int]]:
        """Keys between the ends of each file, and its rows."""
        ends = "readable_metrics.id.upper_bound - readable_metrics.id.lower_bound + 1"
        return [
            (row[0], row[1])
            for row in lake.spark.sql(f"select {ends}, record_count from {lake.sql_name}.files").collect()
        ]

    before = spans()
    assert len(before) == 12
    target = int(4.5 * max(file.size_bytes for file in lake.seen().data))
    assert lake.compact(rewrite_target_bytes=target).counters["files_written"] == 3
    after = spans()
    assert median(span / rows for span, rows in after) <= median(span / rows for span, rows in before)
    if spread == "at random":
        assert median(span for span, _ in after) <= 12_000
        assert median(span for span, _ in before) > 11_000


@pytest.mark.conforms("M-217")
def test_work_beyond_the_limit_of_a_pass_is_done_by_the_next_ones(lake: Lake) -> None:
    """The limit is a pause at a bin's end, as the jobs' runtime limit will be one."""
    append(lake, us=3, eu=3, ap=3)
    rows, counts = lake.rows(), [9]
    while True:
        asked: list[int] = []

        def why_pause(asked: list[int] = asked) -> str | None:
            asked.append(1)
            return "paused: the limit is reached" if len(asked) > 1 else None

        told = lake.compact(why_pause=why_pause, max_parallel_tasks=1)
        if told.status == "skipped":
            break
        counts.append(len(lake.seen().data))
    assert counts == [9, 7, 5, 3]
    assert lake.rows() == rows


@pytest.mark.conforms("M-158")
def test_the_trend_tells_small_files_per_hour_and_how_far_compaction_is_behind(lake: Lake) -> None:
    settings = Settings(dsn=lake.lake_database.dsn, warehouse=str(lake.lake_database.warehouse))

    def look() -> dict[str, Any]:
        with closing(lake.lake_database.connect()) as conn:
            collect_health(conn, settings)
            row = conn.execute("select stats from thermocline.lake_stats order by id desc limit 1").fetchone()
        assert row is not None
        return dict(row[0])

    append(lake, us=1)
    look()
    append(lake, us=5)
    grown = look()
    assert (grown["small_files_created"], grown["small_files_removed"]) == (5, 0)
    assert lake.compact().status == "done"
    packed = look()
    assert (packed["small_files_created"], packed["small_files_removed"], packed["compaction_lag_seconds"]) == (1, 6, 0)
    with lake.context() as context:
        run_rewrite_manifests(replace(context, policy=replace(context.policy, manifest_rewrite_min_manifests=1)))
    append(lake, us=2)
    look()
    with closing(lake.lake_database.connect()) as conn:
        conn.execute("update thermocline.lake_stats set at = at - interval '2 hours'")
    report = read_health(lake.lake_database.dsn, lake.name, settings)
    assert report.created_per_hour == pytest.approx(4, abs=0.1)
    assert report.removed_per_hour == pytest.approx(3, abs=0.1)
    times = {snapshot["snapshot-id"]: snapshot["timestamp-ms"] for snapshot in lake.head().metadata["snapshots"]}
    newest = [
        found for found in lake.head().metadata["snapshots"] if found["summary"].get("thermocline.kind") == "compact"
    ][-1]
    assert report.stats["compaction_lag_seconds"] == (max(times.values()) - newest["timestamp-ms"]) // 1000
    assert re.search(r"per hour 4(\.0\d)? created, 3(\.0\d)? removed", "\n".join(render_stats(report)))


@pytest.mark.conforms("M-179")
def test_what_was_read_written_reused_and_freed_is_counted_to_the_byte(lake: Lake) -> None:
    append(lake, us=4)
    us = [file.path for file in lake.seen().data]
    lake.delete_rows({us[0]: [1, 2]}, like=us[0])
    inputs, deletes = lake.seen().data, lake.seen().deletes
    racing = RacingSpark(lake, 2)  # one append before the look of the commit, one between look and commit
    with lake.context(report_progress=racing.start) as context:
        told = run_compact(replace(context, spark=racing))
    outputs = [file for file in lake.seen().data if file.path not in us and file.record_count > 1]
    assert told.counters["rows_read"] == 40
    assert told.counters["rows_written"] == 38
    assert told.counters["bytes_read"] == sum(file.size_bytes for file in inputs) + sum(
        delete.size_bytes for delete in deletes
    )
    assert told.counters["bytes_written"] == sum(file.size_bytes for file in outputs)
    assert told.counters["conflicts"] + told.counters["rebases"] == told.counters["files_reused"] == 1
    idle = lake.compact(rewrite_min_input_files=9, delete_compaction_min_deletes=9)
    added = ("rows_read", "rows_written", "bytes_read", "bytes_written", "conflicts", "files_reused")
    assert {key: idle.counters[key] for key in added} == dict.fromkeys(added, 0)
    before, lake.now = on_disk(lake), datetime.now(UTC) + timedelta(days=30)
    with lake.context(policy={"snapshot_min_retained": 1}) as context:
        expired = run_expire_snapshots(context)
    gone = before.keys() - on_disk(lake).keys()
    assert (expired.counters["files_deleted"], expired.counters["bytes_freed"]) == (
        len(gone),
        sum(before[path] for path in gone),
    )
    assert len(gone) > 5
