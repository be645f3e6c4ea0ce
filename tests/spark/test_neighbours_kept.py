"""Tables beside a table: what deletes files of one never takes a file that another, or the same under another name,
still needs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.maintenance_ops import run_expire_snapshots, run_prune_metadata, run_remove_orphans
from tests.spark.lake_database import LakeDatabase
from tests.spark.swept_table import SweptTable, make_lake

from thermocline.catalog.maintenance.passes import pass_lock
from thermocline.errors.maintenance import FolderShared, PassRunning, PathSpellingsDiffer
from thermocline.maintain.janitor import remove_stray_files
from thermocline.maintain.lake_tables import remove_table
from thermocline.runtime.locations import without_file_scheme

MONTH = timedelta(days=30)


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Iterator[SweptTable]:
    with make_lake(lake_database) as lake:
        yield lake


def age_all(lake: SweptTable, folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            lake.age(path, hours=24 * 30)


def count(lake: SweptTable, table: str) -> int:
    lake.lake_database.spark.catalog.refreshTable(f"thermocline.lab.{table}")
    return len(
        lake.lake_database.spark.table(f"thermocline.lab.{table}").collect()
    )  # a bare count is answered from the metadata


def test_folders_that_other_tables_write_to_are_not_swept(lake: SweptTable, tmp_path: Path) -> None:
    """One has its data in a folder of ours, one lies in ours with its metadata elsewhere, one shares our folder of
    data."""
    shared, spark = f"file:{tmp_path}/shared", lake.lake_database.spark
    lake.sql(f"alter table {{t}} set tblproperties ('write.data.path' = '{shared}')")
    lake.append(1)
    inside = lake.head.location
    for name, place in (
        ("guest", f"tblproperties ('write.data.path' = '{inside}/guests')"),
        ("split", f"location '{inside}/split' tblproperties ('write.metadata.path' = 'file:{tmp_path}/kept')"),
        ("sharer", f"tblproperties ('write.data.path' = '{shared}/')"),
    ):
        spark.sql(f"create table thermocline.lab.{name} (id bigint) using iceberg {place}")
        spark.sql(f"insert into thermocline.lab.{name} values (1)")
    stray = lake.leave("data/stray.parquet", hours=24 * 9)
    age_all(lake, tmp_path)
    done = run_remove_orphans(lake.context())
    assert [count(lake, name) for name in ("events", "guest", "split", "sharer")] == [1, 1, 1, 1]
    assert not stray.exists()
    assert any("lab.sharer" in detail and "not swept" in detail for detail in done.details)


def test_one_table_under_two_names_loses_neither_data_nor_metadata(lake: SweptTable) -> None:
    lake.sql("alter table {t} set tblproperties ('write.metadata.previous-versions-max'='1')")
    lake.append(1)
    lake.sql(
        f"call thermocline.system.register_table(table => 'lab.copy', metadata_file => '{lake.head.metadata_location}')"
    )
    lake.sql("delete from {t}")
    for key in range(2, 5):
        lake.append(key)
    age_all(lake, lake.folder)
    for run in (run_expire_snapshots, run_remove_orphans, run_prune_metadata):
        with pytest.raises(FolderShared, match=r"lab\.copy"):
            run(lake.context(later=MONTH, snapshot_min_retained=1))
    assert count(lake, "copy") == 1


def test_files_named_by_where_they_were_before_a_move_stop_the_sweep(lake: SweptTable, tmp_path: Path) -> None:
    lake.append(1)
    moved = tmp_path / "moved"
    before = lake.folder
    before.rename(moved)
    before.symlink_to(moved)
    lake.sql(f"alter table {{t}} set location 'file:{moved}'")
    age_all(lake, moved)
    with pytest.raises(PathSpellingsDiffer, match="in another place"):
        run_remove_orphans(lake.context())
    assert lake.rows() == [(1, "row 1")]


def test_a_file_that_a_kept_snapshot_names_under_another_spelling_outlives_the_expiry(lake: SweptTable) -> None:
    lake.append(1)
    table = lake.head.table
    tasks = table.newScan().planFiles()
    file = tasks.iterator().next().file().copy()
    tasks.close()
    lake.sql("delete from {t}")
    folder, _, name = file.location().rpartition("/")
    iceberg = lake.lake_database.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    again = iceberg.DataFiles.builder(table.spec()).copy(file).withPath(f"{folder}//{name}").build()
    lake.head.table.newAppend().appendFile(again).commit()
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert done.counters["snapshots_expired"] == 2
    assert os.path.exists(without_file_scheme(file.location()))
    lake.lake_database.spark.catalog.refreshTable(lake.sql_name)
    assert lake.rows() == [(1, "row 1")]


def test_files_of_an_op_that_nobody_decided_outlive_the_removal_of_their_table(lake: SweptTable) -> None:
    """As a worker leaves it that is killed between the commit and the end of its op."""
    lake.append(1)
    op, path = uuid.uuid4(), lake.head.table.newScan().planFiles().iterator().next().file().location()
    lake.conn.execute(
        (
            "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker) values (%s, %s, 'compact', "
            "'intent', 'dead')"
        ),
        [op, lake.lake_id],
    )
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)", [path, lake.lake_id, op]
    )
    with pass_lock(lake.conn, lake.owner, "events"), pytest.raises(PassRunning):
        remove_table(lake.lake_database.dsn, lake.name)
    assert remove_table(lake.lake_database.dsn, lake.name).changed
    assert remove_stray_files(lake.conn, grace_seconds=0) == 0
    assert lake.rows() == [(1, "row 1")]
