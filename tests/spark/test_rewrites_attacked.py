"""Rewrites while the table is turned back, turned forth and written to behind their back, and files as odd writers
leave them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.maintenance_ops import run_convert_deletes
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.catalog.maintenance.lake_ops import lake_lock
from thermocline.core.maintenance.pacing import UNPACED, Pace

ID = {"id": pa.int64()}


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Lake:
    return Lake.make(lake_database, "id bigint, region string, v double", partitioned="region")


def rows_of(*ids: int, region: str = "us") -> list[tuple[int, str, float]]:
    return [(at, region, at / 7) for at in ids]


def paths(lake: Lake, region: str = "us") -> list[str]:
    return [file.path for file in lake.seen().data if file.partition == (region,)]


def during(act: Callable[[], None], at: str = "compact bin") -> Callable[[str], None]:
    """Acts once, when a pass says this: the first bin is written and not yet committed."""
    left = [act]

    def report_progress(line: object) -> None:
        if str(line).startswith(at) and left:
            left.pop()()

    return report_progress


def snapshot(lake: Lake) -> int:
    found = lake.head().snapshot_id
    assert found is not None
    return found


def append_again(lake: Lake, files: list[Any]) -> None:
    """Data files that were in the table before, added by a new commit."""
    update = lake.head().table.newAppend()
    for file in files:
        update.appendFile(file)
    update.commit()


def entries(lake: Lake, wanted: list[str]) -> list[Any]:
    """Iceberg's own entries of these data files."""
    found, tasks = [], lake.head().table.newScan().planFiles()
    planned = tasks.iterator()
    while planned.hasNext():
        if (file := planned.next().file()).location() in wanted:
            found.append(file.copy())
    tasks.close()
    assert len(found) == len(wanted)
    return found


def test_an_equality_delete_that_is_older_than_the_plan_and_comes_back_is_not_lost(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    start = snapshot(lake)
    lake.delete_equal(ID, [(5,)], like=paths(lake)[0])
    deleted = snapshot(lake)
    lake.run(f"call thermocline.system.rollback_to_snapshot('db.events', {start})")
    lake.append(rows_of(100, region="eu"))
    told = lake.compact(
        report_progress=during(
            lambda: lake.run(f"call thermocline.system.set_current_snapshot('db.events', {deleted})")
        )
    )
    assert {row[0] for row in lake.spark_rows()} == set(range(20)) - {5}, told
    assert (told.status, "its bin is left to the next pass" in told.sentence) == ("failed", True)
    assert lake.compact().status == "done"
    assert {row[0] for row in lake.rows()} == set(range(20)) - {5}


def test_files_that_left_and_came_back_meanwhile_are_of_another_age(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    lake.append(rows_of(100, region="eu"))
    us = paths(lake)

    def arrive() -> None:
        files = entries(lake, us)
        lake.delete_equal(ID, [(5,)])
        lake.run("delete from {t} where region = 'us'")
        append_again(lake, files)

    told = lake.compact(report_progress=during(arrive))
    assert {row[0] for row in lake.spark_rows()} == {*range(20), 100}, told
    assert told.status == "failed"
    assert lake.compact().status == "done"
    assert {row[0] for row in lake.rows()} == {*range(20), 100}


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_that_are_taken_back_while_they_are_converted_delete_nothing(
    lake_database: LakeDatabase, version: int
) -> None:
    lake = Lake.make(lake_database, "id bigint", properties=", 'write.delete.mode' = 'merge-on-read'")
    lake.run("alter table {t} set tblproperties ('format-version' = '" + str(version) + "')")
    lake.append([(at,) for at in range(20)], files=2)
    if version == 2:
        lake.delete_equal(ID, [(3,)])
    else:
        lake.run("delete from {t} where id = 3")
    start = snapshot(lake)
    lake.delete_equal(ID, [(7,)])
    left = [f"call thermocline.system.rollback_to_snapshot('db.events', {start})"]

    def pace() -> Pace:
        if left:
            lake.run(left.pop())
        return UNPACED

    with lake.context(pace=pace) as context:
        told = run_convert_deletes(context)
    assert {row[0] for row in lake.spark_rows()} == set(range(20)) - {3}, told


def test_a_commit_elsewhere_in_the_table_between_looking_and_committing_drops_no_delete(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    lake.run("alter table {t} create branch side")
    with closing(lake.lake_database.connect()) as conn:
        held = lake_lock(conn, lake.lake_id, "the test")

        def arrive() -> None:
            lake.delete_equal(ID, [(5,)], like=paths(lake)[0])
            held.__enter__()

        def commit_on_branch() -> None:
            lake.run("insert into {t}.branch_side values (100, 'us', 1.0)")
            held.__exit__(None, None, None)

        first, second = during(arrive), during(commit_on_branch, at="waiting for the table's writer")
        told = lake.compact(report_progress=lambda line: (first(line), second(line)))
    assert told.status == "done", told
    assert {row[0] for row in lake.rows()} == set(range(20)) - {5}


def test_a_file_that_is_in_the_table_twice_is_left_alone(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    append_again(lake, entries(lake, paths(lake)[:1]))
    before = lake.spark_rows()
    assert len(before) > 20
    told = lake.compact()
    assert lake.spark_rows() == before, told
    assert (told.status, "twice" in told.sentence) == ("failed", True)


def test_files_without_field_ids_keep_the_right_bounds(lake_database: LakeDatabase, tmp_path: Path) -> None:
    lake = Lake.make(lake_database, "a bigint, b bigint")
    (tmp_path / "foreign").mkdir()
    for number in range(2):
        columns = {"b": [1000 + number, 1010 + number], "a": [number, 10 + number]}
        pq.write_table(pa.table(columns), tmp_path / "foreign" / f"{number}.parquet")
    lake.run(
        f"call thermocline.system.add_files(table => 'db.events', source_table => '`parquet`.`{tmp_path / 'foreign'}`')"
    )
    assert lake.compact().status == "done"
    assert lake.spark.table(lake.sql_name).where("a = 11 and b = 1011").count() == 1
    assert lake.rows() == [(0, 1000), (1, 1001), (10, 1010), (11, 1011)]


def test_nan_that_one_of_two_files_was_not_counted_for_is_found(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, v double")
    lake.append([(at, at / 7) for at in range(10)])
    lake.append([(at, float("nan")) for at in range(100, 110)])
    (counted,) = entries(lake, [lake.seen().data[1].path])
    lake.run("delete from {t} where id >= 100")
    iceberg: Any = lake.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    head = lake.head()
    source = head.table.io().newInputFile(counted.location())
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(source, iceberg.MetricsConfig.forTable(head.table))
    builder = (
        iceberg.DataFiles.builder(head.table.spec())
        .withPath(counted.location())
        .withFormat("parquet")
        .withMetrics(metrics)
    )
    append_again(lake, [builder.withFileSizeInBytes(counted.fileSizeInBytes()).build()])
    told = lake.compact()
    assert (told.status, told.details) == ("done", ())
    assert lake.spark.table(lake.sql_name).where("v = double('NaN')").count() == 10


def test_partitions_of_nan_and_of_both_zeros_are_told_apart(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, k double", partitioned="k")
    nan = float("nan")
    lake.append([(1, nan), (2, nan), (3, 0.0), (4, -0.0)])
    lake.append([(5, nan), (6, nan), (7, 0.0), (8, -0.0)])
    like = next(file.path for file in lake.seen().data if str(file.partition[0]) == "nan")
    lake.delete_equal(ID, [(1,), (6,), (3,)], like=like)
    before = sorted(
        (row.id, row.k) for row in lake.spark.table(lake.sql_name).selectExpr("id", "cast(k as string) k").collect()
    )
    assert {row[0] for row in before} == {2, 3, 4, 5, 7, 8}
    told = lake.compact()
    after = sorted(
        (row.id, row.k) for row in lake.spark.table(lake.sql_name).selectExpr("id", "cast(k as string) k").collect()
    )
    assert after == before, told
    assert len(lake.seen().data) == 3
