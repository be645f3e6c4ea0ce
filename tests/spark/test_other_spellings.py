"""A file under other spellings, through links, in other catalogs, of other writers: what deletes never takes one that
is needed."""

from __future__ import annotations

import os
import shutil
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.maintenance_ops import run_expire_snapshots, run_prune_metadata, run_remove_orphans
from tests.spark.lake_database import LakeDatabase
from tests.spark.swept_table import SweptTable, make_lake

from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors.maintenance import CommittedByOtherCatalog, FolderShared, PathSpellingsDiffer
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.engines.spark import SparkEngine
from thermocline.maintain.janitor import remove_stray_files
from thermocline.maintain.operations.registry import plan_operation
from thermocline.maintain.run_operation import run_operation
from thermocline.runtime.locations import without_file_scheme

MONTH = timedelta(days=30)


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Iterator[SweptTable]:
    with make_lake(lake_database) as lake:
        yield lake


def age_all(lake: SweptTable, folder: Path, hours: float = 24 * 30) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            lake.age(path, hours=hours)


def point_catalog_at(lake: SweptTable, location: str) -> None:
    """As another program, or a person, wrote the row."""
    lake.conn.execute(
        (
            "update thermocline_iceberg.iceberg_tables set metadata_location = %s where table_namespace = 'lab' "
            "and table_name = %s"
        ),
        [location, lake.name.table],
    )


def name_data_file(lake: SweptTable, spelled: str) -> str:
    """Put the table's one data file back under another spelling; its real path."""
    table = lake.head.table
    tasks = table.newScan().planFiles()
    file = tasks.iterator().next().file().copy()
    tasks.close()
    iceberg = lake.lake_database.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    lake.sql("delete from {t}")
    again = iceberg.DataFiles.builder(table.spec()).copy(file).withPath(spelled).build()
    lake.head.table.newAppend().appendFile(again).commit()
    return without_file_scheme(file.location())


def data_file(lake: SweptTable) -> str:
    tasks = lake.head.table.newScan().planFiles()
    try:
        return str(tasks.iterator().next().file().location())
    finally:
        tasks.close()


@pytest.mark.parametrize("how", ["double slash", "link", "dots", "no scheme"])
@pytest.mark.conforms("M-220")
def test_the_head_survives_pruning_however_the_catalog_spells_it(lake: SweptTable, how: str, tmp_path: Path) -> None:
    lake.sql("alter table {t} set tblproperties ('write.metadata.previous-versions-max'='2')")
    for key in range(5):
        lake.append(key)
    path = without_file_scheme(lake.head.metadata_location)
    folder, _, name = path.rpartition("/")
    (tmp_path / "link").symlink_to(lake.folder)
    spelled = {
        "double slash": f"file://{lake.folder}//metadata/{name}",
        "link": f"file://{tmp_path}/link/metadata/{name}",
        "dots": f"file://{folder}/./../metadata/{name}",
        "no scheme": path,
    }[how]
    before = set(lake.folder.glob("metadata/*.metadata.json"))
    logged = {entry["metadata-file"].rpartition("/")[2] for entry in lake.head.metadata["metadata-log"]}
    point_catalog_at(lake, spelled)
    context = lake.context()
    age_all(lake, lake.folder)
    done = run_prune_metadata(context)
    point_catalog_at(lake, f"file:{path}")
    left = {found.name for found in lake.folder.glob("metadata/*.metadata.json")}
    assert left == {name, *logged}
    assert done.sentence == f"pruned {len(before) - len(left)} metadata file(s)"
    assert len(lake.rows()) == 5


@pytest.mark.parametrize("how", ["link inside", "link to the file", "dot", "dots", "unicode", "percent"])
def test_a_live_file_that_is_named_otherwise_outlives_the_sweep(lake: SweptTable, how: str) -> None:
    lake.append(1)
    real = Path(without_file_scheme(data_file(lake)))
    spelled = {
        "link inside": f"{lake.folder}/linked/{real.name}",
        "link to the file": f"{lake.folder}/data/alias.parquet",
        "dot": f"{lake.folder}/data/./{real.name}",
        "dots": f"{lake.folder}/metadata/../data/{real.name}",
        "unicode": f"{lake.folder}/data/{unicodedata.normalize('NFC', 'é')}.parquet",
        "percent": f"{lake.folder}/data/%65.parquet",
    }[how]
    if how == "link inside":
        (lake.folder / "linked").symlink_to(lake.folder / "data")
    elif how == "link to the file":
        Path(spelled).symlink_to(real)
    elif how == "unicode":
        shutil.copy(real, real := lake.folder / "data" / f"{unicodedata.normalize('NFD', 'é')}.parquet")
    elif how == "percent":
        shutil.copy(real, real := lake.folder / "data" / "e.parquet")
    name_data_file(lake, f"file:{spelled}")
    run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert real.exists()
    orphan = lake.leave("data/orphan.parquet", hours=24 * 40)
    age_all(lake, lake.folder)
    with pytest.raises(PathSpellingsDiffer) as refusal:
        run_remove_orphans(lake.context())
    assert real.name in str(refusal.value)
    assert str(spelled).rpartition("/")[2] in str(refusal.value)
    assert real.exists()
    assert orphan.exists()


def test_a_neighbour_whose_folder_is_spelled_otherwise_is_left_alone(lake: SweptTable, tmp_path: Path) -> None:
    lake.append(1)
    (tmp_path / "way").symlink_to(lake.folder)
    for name, place in (
        ("slashes", f"{lake.folder}//inner"),
        ("linked", f"{tmp_path}/way/other"),
        ("dotted", f"{lake.folder}/./third"),
    ):
        lake.lake_database.spark.sql(
            f"create table thermocline.lab.{name} (id bigint) using iceberg location 'file:{place}'"
        )
        lake.lake_database.spark.sql(f"insert into thermocline.lab.{name} values (1)")
    stray = lake.leave("data/stray.parquet", hours=24 * 40)
    age_all(lake, lake.folder)
    try:
        run_remove_orphans(lake.context())
        assert not stray.exists()
    except (FolderShared, PathSpellingsDiffer):
        assert stray.exists()
    for name in ("slashes", "linked", "dotted"):
        lake.lake_database.spark.catalog.refreshTable(f"thermocline.lab.{name}")
        assert len(lake.lake_database.spark.table(f"thermocline.lab.{name}").collect()) == 1


def test_a_table_behind_a_link_is_swept_and_data_that_only_a_link_leads_to_is_let_be(
    lake: SweptTable, tmp_path: Path
) -> None:
    lake.append(1)
    place, disk, other_disk = lake.folder, tmp_path / "disk", tmp_path / "other disk"
    place.rename(disk)
    place.symlink_to(disk)
    stray = lake.leave("data/stray.parquet", hours=24 * 9)
    assert run_remove_orphans(lake.context()).counters["orphans_removed"] == 1
    assert not stray.exists()
    (disk / "data").rename(other_disk)
    (disk / "data").symlink_to(other_disk)
    stray = lake.leave("data/stray.parquet", hours=24 * 9)
    lake.sql("delete from {t}")
    lake.append(2)
    before = set(other_disk.iterdir())
    assert run_remove_orphans(lake.context()).counters["orphans_removed"] == 0
    done = run_expire_snapshots(lake.context(later=MONTH, snapshot_min_retained=1))
    assert done.counters["snapshots_expired"] == 2
    assert any("outside the table's folders" in detail for detail in done.details)
    assert (set(other_disk.iterdir()), lake.rows()) == (before, [(2, "row 2")])


@pytest.mark.parametrize("schema", ["thermocline_iceberg", "elsewhere"])
def test_the_same_name_in_another_catalog_of_the_database_is_a_neighbour(lake: SweptTable, schema: str) -> None:
    lake.append(1)
    copied = lake.head.metadata_location
    if schema != "thermocline_iceberg":
        lake.conn.execute("create schema elsewhere")
        lake.conn.execute(
            "create table elsewhere.iceberg_tables (like thermocline_iceberg.iceberg_tables including all)"
        )
    lake.conn.execute(
        f"insert into {schema}.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
        " values ('analytics', 'lab', 'events', %s)",
        [copied],
    )
    lake.sql("alter table {t} set tblproperties ('write.metadata.previous-versions-max'='1')")
    lake.sql("delete from {t}")
    for key in range(2, 5):
        lake.append(key)
    age_all(lake, lake.folder)
    before = lake.files()
    for run in (run_expire_snapshots, run_remove_orphans, run_prune_metadata):
        with pytest.raises(FolderShared, match=r"analytics\.lab\.events"):
            run(lake.context(later=MONTH, snapshot_min_retained=1))
    assert lake.files() == before


def stage(lake: SweptTable, path: str, op: uuid.UUID) -> None:
    """A file as an op leaves it that wrote it and was abandoned."""
    lake.conn.execute(
        (
            "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker) values (%s, %s, 'compact', "
            "'abandoned', 'x')"
        ),
        [op, lake.lake_id],
    )
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)", [path, lake.lake_id, op]
    )


def commit_through_another_catalog(lake: SweptTable) -> Path:
    """Commit through another catalog: files appear in the table's folder, and our catalog row does not change."""
    known = lake.head.metadata_location
    lake.append(99)
    theirs = Path(without_file_scheme(lake.head.metadata_location))
    point_catalog_at(lake, known)
    return theirs


def test_a_metadata_file_newer_than_the_head_stops_all_that_deletes(lake: SweptTable) -> None:
    lake.sql("alter table {t} set tblproperties ('write.metadata.previous-versions-max'='1')")
    for key in range(4):
        lake.append(key)
    age_all(lake, lake.folder)
    assert remove_stray_files(lake.conn, 0) == 0  # compares each lake with the journal, once for each start of Postgres
    theirs = commit_through_another_catalog(lake)
    stray, op = lake.leave("data/stray.parquet", hours=24 * 30), uuid.uuid4()
    lake.conn.execute(
        (
            "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker) values (%s, %s, 'compact', "
            "'abandoned', 'x')"
        ),
        [op, lake.lake_id],
    )
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)",
        [f"file:{stray}", lake.lake_id, op],
    )
    before = lake.files()
    for run in (run_expire_snapshots, run_remove_orphans, run_prune_metadata):
        with pytest.raises(CommittedByOtherCatalog, match=theirs.name):
            run(lake.context(later=MONTH, snapshot_min_retained=1))
    with pytest.raises(CommittedByOtherCatalog, match=theirs.name):
        remove_stray_files(lake.conn, 0)
    assert lake.files() == before
    point_catalog_at(lake, f"file:{theirs}")
    run_remove_orphans(lake.context())
    assert remove_stray_files(lake.conn, 0) == 1
    assert (stray.exists(), len(lake.rows())) == (False, 5)


class LateEngine:
    """Something happens to the table between the plan and its run."""

    name = "late"

    def __init__(self, happens: Callable[[], object]) -> None:
        self.happens = happens

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        self.happens()
        return SparkEngine().run(plan, applier)


def test_a_commit_through_another_catalog_after_the_plan_stops_expiry(lake: SweptTable) -> None:
    """It moves neither our head nor the bounds, so the plan looks current."""
    for key in range(4):
        lake.append(key)
    age_all(lake, lake.folder)
    before, context = lake.files(), lake.context(later=MONTH, snapshot_min_retained=1)
    with pytest.raises(CommittedByOtherCatalog):
        run_operation(
            "expire_snapshots", context, plan_operation, LateEngine(lambda: commit_through_another_catalog(lake))
        )
    assert set(lake.files()) >= set(before)


def test_the_janitor_forgets_a_staged_file_that_the_table_names_and_deletes_it_not(lake: SweptTable) -> None:
    lake.append(1)
    path, op = data_file(lake), uuid.uuid4()
    folder, _, name = without_file_scheme(path).rpartition("/")
    lake.conn.execute(
        (
            "insert into thermocline.op_log (op_id, lake_id, kind, phase, worker) values (%s, %s, 'compact', "
            "'abandoned', 'x')"
        ),
        [op, lake.lake_id],
    )
    lake.conn.execute(
        "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, %s)",
        [f"{folder}//{name}", lake.lake_id, op],
    )
    assert remove_stray_files(lake.conn, 0) == 0
    assert os.path.exists(f"{folder}/{name}")
    assert lake.conn.execute("select count(*) from thermocline.staged_files").fetchone() == (0,)
    assert lake.rows() == [(1, "row 1")]
