"""Expiry, sweep and manifests by the acceptance list's own worked examples, and what two of them at once must not
do."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.maintenance_ops import run_expire_snapshots, run_remove_orphans, run_rewrite_manifests
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake as CompactedLake
from tests.spark.swept_table import SweptTable, make_lake

from thermocline.catalog.safety import doom
from thermocline.core.names import TableName
from thermocline.errors import LostRace
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.lake.commit.remove_snapshots import remove_snapshots
from thermocline.lake.read.reachable import ManifestIndex
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.janitor import remove_stray_files
from thermocline.maintain.operations import expire_snapshots as expire_module
from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.retries import back_off
from thermocline.runtime.settings import Settings

DAY = 24 * 3_600_000
MONTH = timedelta(days=30)


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Iterator[SweptTable]:
    with make_lake(lake_database) as lake:
        yield lake


def set_ages(lake: SweptTable, ages_ms: list[int]) -> None:
    """Give the snapshots these ages, oldest first: a new metadata file with other times, put in the place of the
    newest."""
    location = lake.head.metadata_location
    told = json.loads(Path(without_file_scheme(location)).read_text())
    now = int(datetime.now(UTC).timestamp() * 1000)
    times = dict(
        zip((snapshot["snapshot-id"] for snapshot in told["snapshots"]), (now - age for age in ages_ms), strict=True)
    )
    for entry in (*told["snapshots"], *told["snapshot-log"]):
        entry["timestamp-ms"] = times[entry["snapshot-id"]]
    told["metadata-log"] = []
    aged = location.replace(".metadata.json", "-aged.metadata.json")
    Path(without_file_scheme(aged)).write_text(json.dumps(told))
    lake.conn.execute(
        "update thermocline_iceberg.iceberg_tables set metadata_location = %s where table_name = %s",
        [aged, lake.name.table],
    )


@pytest.mark.conforms("M-095")
def test_of_eight_snapshots_the_last_three_expire_with_the_twelve_files_they_alone_name(lake: SweptTable) -> None:
    lake.sql("insert into {t} select /*+ repartition(2) */ id, 'two files' from range(10)")
    for key in range(7):
        lake.sql(f"insert overwrite {{t}} values ({key}, 'version {key}')")
    set_ages(lake, [14 * DAY, 10 * DAY, 8 * DAY, 6 * DAY, 5 * DAY, 3 * DAY, 2 * DAY, 3_600_000])
    done = run_expire_snapshots(lake.context(snapshot_min_retained=5, snapshot_retention_ms=7 * DAY))
    assert done.sentence == "expired 3 snapshot(s), deleted 12 unreferenced file(s)"
    assert lake.rows() == [(6, "version 6")]


@pytest.mark.conforms("M-099")
def test_the_originals_of_a_compaction_are_gone_once_their_snapshots_are(
    lake_database: LakeDatabase, on_flush: Callable[[Callable[[Path], object]], None]
) -> None:
    """And not before what took their place is on disk, whoever wrote it."""
    lake = CompactedLake.make(lake_database, "id bigint, body string")
    for key in range(4):
        lake.append([(key, f"row {key}")])
    folder = Path(without_file_scheme(lake.head().location)) / "data"
    originals = set(folder.rglob("*.parquet"))
    assert lake.compact().status == "done"
    assert originals < set(folder.rglob("*.parquet"))
    flushed_beside_originals: set[Path] = set()
    on_flush(
        lambda path: flushed_beside_originals.add(path) if all(original.exists() for original in originals) else None
    )
    lake.now = datetime.now(UTC) + MONTH
    with lake.context(policy={"snapshot_min_retained": 1}) as context:
        assert run_expire_snapshots(context).status == "done"
    left = set(folder.rglob("*.parquet"))
    assert (len(left), left & originals) == (1, set())
    assert left <= flushed_beside_originals
    assert lake.rows() == [(key, f"row {key}") for key in range(4)]


@pytest.mark.conforms("M-181", "M-047")
def test_a_file_that_waits_for_its_commit_outlives_the_sweep_whatever_its_age(lake: SweptTable) -> None:
    lake.append(1)
    data = next((lake.folder / "data").glob("*.parquet"))
    staged = data.with_name("staged-long-ago.parquet")
    shutil.copy(data, staged)
    lake.age(staged, hours=24 * 90)
    location = f"{lake.head.location}/data/{staged.name}"
    lake.conn.execute(
        (
            "insert into thermocline.staged_files (path, lake_id, op_id, at) values (%s, %s, %s, now() - "
            "interval '90 days')"
        ),
        [location, lake.lake_id, uuid.uuid4()],
    )
    foreign = data.with_name("foreign-upload.parquet")
    shutil.copy(data, foreign)
    lake.age(foreign, hours=23)
    run_remove_orphans(lake.context(orphan_grace_ms=1))
    for path in (location, f"{lake.head.location}/data/{foreign.name}"):
        append_by_path(lake, path)
    assert lake.rows() == [(1, "row 1")] * 3


def append_by_path(lake: SweptTable, path: str) -> None:
    """Commit a file that lies there already, as its writer would."""
    head = lake.head
    iceberg: Any = lake.lake_database.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    source = head.table.io().newInputFile(path)
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(source, iceberg.MetricsConfig.forTable(head.table))
    builder = iceberg.DataFiles.builder(head.table.spec()).withPath(path).withFormat(iceberg.FileFormat.PARQUET)
    head.table.newAppend().appendFile(
        builder.withFileSizeInBytes(source.getLength()).withMetrics(metrics).build()
    ).commit()


@pytest.mark.conforms("M-106")
def test_files_of_failed_work_go_after_the_grace_period_without_a_sweep(lake: SweptTable) -> None:
    lake.append(1)
    failed, op_id = lake.leave("data/of-a-failed-load.parquet", hours=2), uuid.uuid4()
    lake.conn.execute(
        "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker, changed_at, started_at)"
        " values (%s, %s, 'compact', 'abandoned', 'x', now() - interval '2 hours', now() - interval '2 hours')",
        [op_id, lake.lake_id],
    )
    lake.conn.execute(
        (
            "insert into thermocline.staged_files (path, lake_id, op_id, at) values (%s, %s, %s, now() - "
            "interval '2 hours')"
        ),
        [f"file:{failed}", lake.lake_id, op_id],
    )
    assert remove_stray_files(lake.conn, grace_seconds=3 * 3600) == 0
    assert failed.exists()
    assert remove_stray_files(lake.conn, grace_seconds=3600) == 1
    assert not failed.exists()


@pytest.mark.conforms("M-052")
@pytest.mark.parametrize("missing", ["staged_files", "op_log"])
def test_a_pass_whose_bounds_cannot_be_read_does_nothing_and_says_why(lake: SweptTable, missing: str) -> None:
    lake.append(1)
    lake.append(2)
    before = lake.files()
    lake.conn.execute(f"alter table thermocline.{missing} rename to gone".encode())
    for run in (run_expire_snapshots, run_remove_orphans):
        with pytest.raises(Exception, match=missing):
            run(lake.context(later=MONTH, snapshot_min_retained=1))
    assert lake.files() == before


@pytest.mark.conforms("M-122")
def test_of_two_that_let_go_of_snapshots_on_one_version_one_wins(lake: SweptTable) -> None:
    first, second = lake.append(1), lake.append(2)
    lake.append(3)
    one, other = load_table(lake.lake_database.spark, lake.name), load_table(lake.lake_database.spark, lake.name)
    remove_snapshots(one, [first], [])
    with pytest.raises(LostRace):
        remove_snapshots(other, [second], [])
    assert {told["snapshot-id"] for told in lake.head.metadata["snapshots"]} >= {second}
    assert lake.rows(second) == [(1, "row 1"), (2, "row 2")]


@pytest.mark.conforms("M-123")
def test_a_lost_race_leaves_no_metadata_file_and_is_run_again_after_growing_waits(
    lake: SweptTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def recorded(attempt: int) -> float:
        waits.append(back_off(attempt))
        return 0.0

    monkeypatch.setattr(expire_module, "back_off", recorded)
    for key in range(3):
        lake.append(key)
    overtaken: list[int] = []

    def overtake(_bounds: object) -> None:
        overtaken.append(lake.append(100 + len(overtaken)))

    context = lake.context(later=MONTH, snapshot_min_retained=1, max_commit_retries=3)
    done = run_expire_snapshots(replace(context, note_bounds=overtake))
    assert (done.status, done.sentence) == ("failed", "metadata version conflict")
    assert [round(wait / base, 2) for wait, base in zip(waits, (0.05, 0.1, 0.2), strict=True)] == [
        pytest.approx(1, abs=0.26)
    ] * 3
    assert all(3.7 < back_off(attempt) < 6.3 for attempt in (7, 8, 100))
    assert len({back_off(3) for _ in range(9)}) > 1
    named = {lake.head.metadata_location, *(entry["metadata-file"] for entry in lake.head.metadata["metadata-log"])}
    assert {path.name for path in (lake.folder / "metadata").glob("*.metadata.json")} == {
        Path(location).name for location in named
    }
    assert run_expire_snapshots(context).counters["snapshots_expired"] == len(overtaken) + 2
    assert len(lake.rows()) == 3 + len(overtaken)


def test_what_a_killed_pass_left_is_counted_with_what_the_next_one_deletes(lake: SweptTable) -> None:
    for key in range(3):
        lake.append(key)
    left = lake.leave("data/left-by-a-killed-pass.parquet", hours=1)
    doom(lake.conn, lake.owner, [(f"file://{left}", left.stat().st_size)])
    sizes = {name: (lake.folder / name).stat().st_size for name in lake.files()}
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    gone = sizes.keys() - lake.files()
    assert str(left.relative_to(lake.folder)) in gone
    assert (done.counters["files_deleted"], done.counters["bytes_freed"]) == (
        len(gone),
        sum(sizes[name] for name in gone),
    )


@pytest.mark.conforms("M-111")
def test_twelve_manifests_with_320_entries_become_one(lake: SweptTable) -> None:
    append_manifests(lake, [27] * 8 + [26] * 4)
    done = run_rewrite_manifests(lake.context(manifest_rewrite_min_manifests=5))
    assert done.sentence == "rewrote 12 manifests into 1 (320 entries)"


def append_manifests(lake: SweptTable, sizes: list[int], partition: str | None = None) -> None:
    """One snapshot with manifests of so many entries each; the data files exist in name only."""
    head = lake.head
    iceberg: Any = lake.lake_database.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    update = head.table.newFastAppend()
    for at, size in enumerate(sizes):
        writer = iceberg.ManifestFiles.write(
            head.table.spec(), head.table.io().newOutputFile(f"{head.location}/metadata/{uuid.uuid4()}-m{at}.avro")
        )
        for entry in range(size):
            builder = iceberg.DataFiles.builder(head.table.spec()).withPath(
                f"{head.location}/data/{uuid.uuid4()}.parquet"
            )
            builder = builder.withFormat("parquet").withFileSizeInBytes(10).withRecordCount(1)
            if partition is not None:
                builder = builder.withPartitionPath(f"{partition}={entry % 8}")
            writer.add(builder.build())
        writer.close()
        update.appendManifest(writer.toManifestFile())
    update.commit()


@pytest.mark.conforms("M-114", "M-213")
def test_manifests_of_each_spec_are_clustered_by_partition_and_stay_as_they_are_the_next_time(lake: SweptTable) -> None:
    append_manifests(lake, [3, 3])
    lake.sql("alter table {t} add partition field id")
    lake.sql("alter table {t} set tblproperties ('commit.manifest.target-size-bytes'='9000')")
    append_manifests(lake, [16] * 10, "id")
    read = [_manifests_that_may_hold(lake, part) for part in range(8)]
    done = run_rewrite_manifests(lake.context(manifest_rewrite_min_manifests=2, manifest_target_bytes=9000))
    assert done.status == "done"
    after = [_manifests_that_may_hold(lake, part) for part in range(8)]
    assert max(read) == 10
    assert max(after) <= 2, after
    specs = {manifest.partition_spec_id for manifest in _manifests(lake)}
    assert specs == {0, 1}
    again = run_rewrite_manifests(lake.context(manifest_rewrite_min_manifests=2, manifest_target_bytes=9000))
    assert (again.status, "as few as they can be" in again.sentence) == ("skipped", True)


def _manifests(lake: SweptTable) -> list[Any]:
    metadata = read_lake_table(lake.head.metadata_location).metadata
    current = metadata.current_snapshot()
    assert current is not None
    return list(ManifestIndex().reach([current]).manifests.values())


def _manifests_that_may_hold(lake: SweptTable, part: int) -> int:
    """How many manifests of the partitioned spec a query for one partition must open."""
    count = 0
    for manifest in _manifests(lake):
        if manifest.partition_spec_id == 1 and manifest.partitions:
            low, high = (int.from_bytes(bound, "little", signed=True) for bound in _bounds(manifest.partitions[0]))
            count += low <= part <= high
    return count


def _bounds(summary: Any) -> tuple[bytes, bytes]:
    return summary.lower_bound, summary.upper_bound


@pytest.mark.conforms("M-006")
def test_others_expiry_and_sweep_refuse_a_lake_of_ours(make_spanning: Any) -> None:
    spanning = make_spanning()
    spanning.tier()
    for call in ("expire_snapshots(table => 'public.events')", "remove_orphan_files(table => 'public.events')"):
        with pytest.raises(Exception, match=r"GC is disabled|gc\.enabled"):
            spanning.spark().sql(f"call thermocline.system.{call}").collect()
    settings: Settings = spanning.settings
    request = PassRequest(operations=("expire_snapshots",))
    report = run_pass(
        spanning.dsn, TableName("public", "events"), settings=settings, spark=spanning.spark, request=request
    )
    assert report.status != "failed"
    assert (
        "Never run another program's expiry or orphan sweep"
        in (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
    )
