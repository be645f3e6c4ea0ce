"""What deletes files of the lake: expiry, the orphan sweep, pruning. Nothing that anybody needs ever goes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from tests.maintenance_ops import run_expire_snapshots, run_prune_metadata, run_remove_orphans, run_rewrite_manifests
from tests.spark.lake_database import LakeDatabase
from tests.spark.swept_table import SweptTable, make_lake

from thermocline.catalog import safety
from thermocline.catalog.maintenance import quarantine
from thermocline.errors.maintenance import FolderShared, GcForbidden, PathSpellingsDiffer
from thermocline.maintain.lake_tables import restore_orphans
from thermocline.maintain.operations.quarantine import restore_quarantined

MONTH = timedelta(days=30)


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Iterator[SweptTable]:
    with make_lake(lake_database) as lake:
        yield lake


@pytest.mark.conforms("M-097", "M-098")
def test_expired_snapshots_take_with_them_what_only_they_name(lake: SweptTable) -> None:
    assert run_expire_snapshots(lake.context()).sentence == "no snapshots"
    for key in range(3):
        lake.append(key)
    lake.sql("delete from {t} where id < 2")
    kept = lake.rows()
    before = lake.files()
    young = run_expire_snapshots(lake.context(snapshot_min_retained=1))
    assert (young.sentence, young.status, lake.files()) == ("no snapshots expired", "skipped", before)
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    gone = before - lake.files()
    assert done.counters["snapshots_expired"] == 3
    assert done.counters["files_deleted"] == len({path for path in gone if not path.endswith(".crc")})
    assert sum(path.startswith("data/") for path in gone) == 2
    assert done.sentence == f"expired 3 snapshot(s), deleted {len(gone)} unreferenced file(s)"
    assert done.counters["bytes_freed"] > 0
    assert (lake.rows(), safety.read_doomed(lake.conn, lake.owner)) == (kept, ())
    assert run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1)).sentence == "no snapshots expired"


@pytest.mark.conforms("M-050", "M-100", "M-192")
def test_branches_tags_and_staged_snapshots_stay_readable(lake: SweptTable) -> None:
    first = lake.append(1)
    lake.sql("alter table {t} create tag first_load")
    lake.sql("alter table {t} create branch audit retain 90 days with snapshot retention 2 snapshots")
    lake.append(2)
    lake.sql("delete from {t} where id = 1")
    lake.append(3)
    lake.lake_database.spark.conf.set("spark.wap.id", "nightly")
    lake.sql("alter table {t} set tblproperties ('write.wap.enabled'='true')")
    lake.sql("insert into {t} values (4, 'to be audited')")
    lake.lake_database.spark.conf.unset("spark.wap.id")
    staged = next(
        told["snapshot-id"] for told in lake.head.metadata["snapshots"] if told["summary"].get("wap.id") == "nightly"
    )
    done = run_expire_snapshots(lake.context(later=timedelta(days=6), snapshot_min_retained=1))
    assert done.counters["snapshots_expired"] == 2
    assert lake.rows("first_load") == lake.rows("audit") == lake.rows(first) == [(1, "row 1")]
    assert lake.rows(staged) == [(2, "row 2"), (3, "row 3"), (4, "to be audited")]


@pytest.mark.conforms("M-048", "M-191")
def test_the_base_of_an_unfinished_operation_stays_and_so_does_all_that_came_after(lake: SweptTable) -> None:
    snapshots = [lake.append(key) for key in range(4)]
    other = uuid.uuid4()
    lake.conn.execute(
        "insert into thermocline.op_log (op_id, lake_id, kind, phase, base_snapshot, worker)"
        " values (%s, %s, 'maintain', 'intent', %s, 'x')",
        [other, lake.lake_id, snapshots[1]],
    )
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert (done.counters["snapshots_expired"], lake.rows(snapshots[1])) == (1, [(0, "row 0"), (1, "row 1")])
    assert f"snapshot {snapshots[1]} stays: operation {other} (maintain)" in done.details
    own = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1, pass_id=other))
    assert own.counters["snapshots_expired"] == 2


def test_a_pass_killed_before_its_commit_deletes_nothing_and_one_killed_after_it_is_finished(lake: SweptTable) -> None:
    for key in range(3):
        lake.append(key)
    lake.sql("delete from {t} where id = 0")
    live = next(path for path in lake.files() if path.startswith("data/"))
    wanted = str(lake.folder / live)
    safety.doom(lake.conn, lake.owner, [(wanted, 1)])  # as a pass that died before its commit would leave it
    left = lake.leave("data/left-by-a-dead-pass.parquet", hours=0)
    safety.doom(lake.conn, lake.owner, [(f"file:{left}", 11)])
    kept = lake.rows()
    done = run_expire_snapshots(lake.context(snapshot_min_retained=1))
    assert (Path(wanted).exists(), left.exists(), lake.rows()) == (True, False, kept)
    assert "deleted 1 file(s) that a killed pass had left" in done.details
    assert safety.read_doomed(lake.conn, lake.owner) == ()


@pytest.mark.conforms("M-194", "M-203")
def test_tables_whose_files_may_be_shared_are_left_alone(lake: SweptTable) -> None:
    lake.append(1)
    lake.append(2)
    lake.sql("alter table {t} set tblproperties ('gc.enabled'='false')")
    before = lake.files()
    for run in (run_expire_snapshots, run_remove_orphans, run_prune_metadata):
        with pytest.raises(GcForbidden, match=r"gc\.enabled=false"):
            run(lake.context(later=MONTH, snapshot_min_retained=1))
    lake.sql("alter table {t} set tblproperties ('thermocline.owner'='thermocline')")
    assert run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1)).counters["snapshots_expired"] == 1
    assert len(lake.files()) < len(before) + 2


def test_a_file_added_by_reference_is_not_deleted_with_its_snapshot(lake: SweptTable, tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere"
    lake.lake_database.spark.range(3).selectExpr("id", "cast(id as string) as body").write.parquet(str(outside))
    lake.lake_database.spark.sql(
        f"call thermocline.system.add_files(table => 'lab.events', source_table => '`parquet`.`{outside}`')"
    )
    shared = set(outside.rglob("*.parquet"))
    lake.sql("delete from {t}")
    lake.append(9)
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert done.counters["snapshots_expired"] >= 1
    assert all(path.exists() for path in shared)
    assert any("outside the table's folders" in detail for detail in done.details)


@pytest.mark.conforms("M-102", "M-103", "M-107", "M-193")
def test_the_sweep_takes_what_nothing_names_and_leaves_the_young_the_staged_and_all_kinds_of_references(
    lake: SweptTable,
) -> None:
    lake.append(1)
    lake.sql("alter table {t} create tag t1")
    lake.append(2)
    lake.sql("call thermocline.system.compute_table_stats(table => 'lab.events')")
    named = lake.files()
    for path in named:
        lake.age(lake.folder / path, hours=24 * 30)
    orphans = [
        lake.leave("metadata/compact-failed.avro", hours=24 * 4),
        lake.leave("metadata/v0.metadata.json", hours=24 * 10),
        lake.leave("data/compact-orphan.parquet", hours=24 * 5),
    ]
    young = lake.leave("data/temp-upload.parquet", hours=1)
    hint = lake.leave("metadata/version-hint.text", hours=24 * 90)
    staged = lake.leave("data/staged.parquet", hours=24 * 90)
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)",
        [f"{lake.head.location}/data/staged.parquet", lake.lake_id, uuid.uuid4()],
    )
    plan = run_remove_orphans(lake.context(dry_run=True))
    assert plan.sentence == "would remove 3 orphan file(s)"
    assert sum("named by nothing" in detail for detail in plan.details) == 3
    assert all(path.exists() for path in orphans)
    done = run_remove_orphans(lake.context())
    assert (done.sentence, done.counters["orphans_removed"]) == ("removed 3 orphan file(s)", 3)
    assert not any(path.exists() for path in orphans)
    assert all(path.exists() for path in (young, hint, staged))
    assert named <= lake.files()
    assert lake.rows() == [(1, "row 1"), (2, "row 2")]
    assert run_remove_orphans(lake.context()).status == "skipped"


def test_a_grace_period_of_minutes_still_leaves_foreign_writers_a_day(lake: SweptTable) -> None:
    lake.append(1)
    file = lake.leave("data/foreign-upload.parquet", hours=20)
    assert run_remove_orphans(lake.context(orphan_grace_ms=60_000)).status == "skipped"
    lake.age(file, hours=25)
    assert run_remove_orphans(lake.context(orphan_grace_ms=60_000)).counters["orphans_removed"] == 1


@pytest.mark.conforms("M-182")
@pytest.mark.parametrize("spelled", ["double//slash", "per%63ent", "UPPER"])
def test_a_file_that_is_named_under_another_spelling_stops_the_sweep(lake: SweptTable, spelled: str) -> None:
    lake.append(1)
    orphan = lake.leave("data/orphan.parquet", hours=24 * 9)
    real = lake.leave(
        f"data/{ {'double//slash': 'double/slash', 'per%63ent': 'percent', 'UPPER': 'upper'}[spelled] }.parquet",
        hours=24 * 9,
    )
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)",
        [f"{lake.head.location}/data/{spelled}.parquet", lake.lake_id, uuid.uuid4()],
    )
    with pytest.raises(PathSpellingsDiffer, match="under another spelling"):
        run_remove_orphans(lake.context())
    assert orphan.exists()
    assert real.exists()


def test_two_tables_in_one_folder_are_not_swept_and_a_table_inside_another_is_left_alone(lake: SweptTable) -> None:
    lake.append(1)
    inner = f"{lake.head.location}/data/inner"
    lake.lake_database.spark.sql(f"create table thermocline.lab.inner (id bigint) using iceberg location '{inner}'")
    lake.lake_database.spark.sql("insert into thermocline.lab.inner values (1)")
    for path in lake.folder.rglob("inner/**/*.parquet"):
        lake.age(path, hours=24 * 30)
    assert run_remove_orphans(lake.context()).counters["orphans_removed"] == 0
    assert lake.lake_database.spark.table("thermocline.lab.inner").count() == 1
    lake.lake_database.spark.sql(
        f"create table thermocline.lab.twin (id bigint) using iceberg location '{lake.head.location}'"
    )
    with pytest.raises(FolderShared, match=r"lab\.events and lab\.twin have their files in one folder"):
        run_remove_orphans(lake.context())


@pytest.mark.conforms("M-109")
def test_orphans_can_be_moved_aside_and_come_back(lake: SweptTable) -> None:
    lake.append(1)
    file = lake.leave("data/orphan.parquet", hours=24 * 9)
    day = 24 * 3_600_000
    done = run_remove_orphans(lake.context(orphan_quarantine_ms=day))
    assert (done.sentence, file.exists()) == ("quarantined 1 orphan file(s)", False)
    assert restore_quarantined(lake.conn, lake.owner).back == 1
    assert file.read_bytes() == b"left behind"
    lake.age(file, hours=24 * 9)
    run_remove_orphans(lake.context(orphan_quarantine_ms=day))
    kept = quarantine.read_notes(lake.conn, lake.owner)[0].kept_at
    assert Path(kept.removeprefix("file:")).exists()
    run_remove_orphans(replace(lake.context(orphan_quarantine_ms=day), now=lake.context().now + timedelta(days=2)))
    assert not Path(kept.removeprefix("file:")).exists()
    assert quarantine.read_notes(lake.conn, lake.owner) == ()


def test_old_metadata_files_go_when_the_log_has_let_go_of_them_and_no_pin_names_them(lake: SweptTable) -> None:
    lake.sql("alter table {t} set tblproperties ('write.metadata.previous-versions-max'='2')")
    for key in range(5):
        lake.append(key)
    for path in lake.folder.glob("metadata/*.metadata.json"):
        lake.age(path, hours=30)
    before = len(list(lake.folder.glob("metadata/*.metadata.json")))
    done = run_prune_metadata(lake.context())
    assert done.sentence == f"pruned {before - 3} metadata file(s)"
    assert len(list(lake.folder.glob("metadata/*.metadata.json"))) == 3
    assert lake.rows() == [(key, f"row {key}") for key in range(5)]
    assert run_prune_metadata(lake.context()).sentence == "no metadata files to prune"


@pytest.mark.conforms("M-110", "M-112", "M-113")
def test_manifests_become_few_and_no_file_or_sequence_number_changes(lake: SweptTable) -> None:
    assert run_rewrite_manifests(lake.context()).sentence == "no current snapshot"
    lake.sql("alter table {t} set tblproperties ('commit.manifest-merge.enabled'='false')")
    for key in range(4):
        lake.append(key)
    query = (
        "select data_file.file_path, sequence_number, file_sequence_number, snapshot_id from {t}.entries where "
        "status < 2"
    )
    before = sorted(tuple(row) for row in lake.sql(query).collect())
    few = run_rewrite_manifests(lake.context())
    assert few.sentence == "only 4 data manifests, below threshold of 100"
    done = run_rewrite_manifests(lake.context(manifest_rewrite_min_manifests=2))
    assert done.sentence == "rewrote 4 manifests into 1 (4 entries)"
    assert sorted(tuple(row) for row in lake.sql(query).collect()) == before
    again = run_rewrite_manifests(lake.context(manifest_rewrite_min_manifests=1))
    assert again.sentence == "1 data manifests are as few as they can be at 8388608 bytes each"
    assert lake.rows() == [(key, f"row {key}") for key in range(4)]


def test_a_file_that_cannot_be_deleted_is_told_and_tried_again(lake: SweptTable) -> None:
    for key in range(2):
        lake.append(key)
    stubborn = lake.folder / "data" / "folder-in-the-way.parquet"
    stubborn.mkdir()
    (stubborn / "inside").write_text("x")
    os.utime(stubborn)
    safety.doom(lake.conn, lake.owner, [(f"file:{stubborn}", 5)])
    done = run_expire_snapshots(lake.context())
    assert done.status in ("skipped", "done")
    assert safety.read_doomed(lake.conn, lake.owner) == ((f"file:{stubborn}", 5),)


def test_a_pass_that_cannot_read_its_bounds_does_nothing(lake: SweptTable) -> None:
    lake.append(1)
    lake.append(2)
    before = lake.files()
    lake.conn.execute("alter table thermocline.staged_files rename to staged_files_gone")
    with pytest.raises(psycopg.errors.UndefinedTable, match="staged_files"):
        run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert lake.files() == before


def test_the_command_brings_quarantined_files_back(lake: SweptTable) -> None:
    lake.append(1)
    file = lake.leave("data/orphan.parquet", hours=24 * 9)
    run_remove_orphans(lake.context(orphan_quarantine_ms=24 * 3_600_000))
    assert (
        restore_orphans(lake.lake_database.dsn, lake.name).sentence == "lab.events: 1 file(s) came back from quarantine"
    )
    assert file.exists()
    assert not restore_orphans(lake.lake_database.dsn, lake.name).changed


@pytest.mark.conforms("M-204")
def test_the_main_branch_keeps_its_own_retention_settings(lake: SweptTable) -> None:
    for key in range(4):
        lake.append(key)
    update = lake.head.table.manageSnapshots()
    update.setMinSnapshotsToKeep("main", 3).setMaxSnapshotAgeMs("main", 60_000).commit()
    run_rewrite_manifests(lake.context(manifest_rewrite_min_manifests=2))
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert done.counters["snapshots_expired"] == 2
    kept = lake.head.metadata["refs"]["main"]
    assert (kept["min-snapshots-to-keep"], kept["max-snapshot-age-ms"]) == (3, 60_000)
