"""Deletes of every kind around a rewrite: what Spark reads before is what Spark and DuckDB read after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.maintenance_ops import run_convert_deletes, run_rewrite_position_delete_files
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake


@pytest.fixture
def lake(lake_database: LakeDatabase) -> Lake:
    return Lake.make(lake_database, "id bigint, region string, v double", partitioned="region")


def rows_of(*ids: int, region: str = "us") -> list[tuple[int, str, float]]:
    return [(at, region, at / 7) for at in ids]


def paths(lake: Lake, region: str = "us") -> list[str]:
    return [file.path for file in lake.seen().data if file.partition == (region,)]


ID = {"id": pa.int64()}


@pytest.mark.conforms("M-075", "M-077", "M-078")
def test_deletes_of_all_kinds_are_applied_and_dropped_when_nothing_needs_them(lake: Lake) -> None:
    lake.append(rows_of(*range(60)), files=3)
    lake.append(rows_of(*range(100, 160), region="eu"), files=2)
    us = paths(lake)
    lake.delete_equal(ID, [(3,), (4,), (103,)], like=us[0])
    lake.delete_equal({"id": pa.int64(), "v": pa.float64()}, [(10, 10 / 7), (11, 0.0)], like=us[0])
    lake.delete_rows({us[0]: [0, 1], us[1]: [2]}, like=us[0])
    lake.delete_equal(ID, [(150,)])
    before = lake.spark_rows()
    told = lake.compact(where="region = 'us'")
    assert told.status == "done", told
    assert lake.rows() == before
    assert [(delete.kind, delete.partition) for delete in lake.seen().deletes] == [("equality", ())]
    assert lake.compact().status == "done"
    assert lake.rows() == before
    assert lake.seen().deletes == ()
    assert lake.compact().status == "skipped"


def during(action: Callable[[], object]) -> Callable[[str], None]:
    """Does something once a bin was written and before it is committed."""
    done: list[str] = []

    def report_progress(line: object) -> None:
        if str(line).startswith("compact bin") and not done:
            done.append(str(line))
            action()

    return report_progress


@pytest.mark.conforms("M-129")
def test_position_deletes_that_arrive_meanwhile_are_moved_onto_the_output(lake: Lake) -> None:
    lake.append(rows_of(*range(40)), files=2)
    us = paths(lake)
    lake.delete_rows({us[0]: [3]}, like=us[0])
    expected: list[Any] = []

    def arrive() -> None:
        lake.delete_rows({us[0]: [0, 5], us[1]: [7]}, like=us[0])
        lake.append(rows_of(77))
        expected.extend(lake.spark_rows())

    told = lake.compact(report_progress=during(arrive))
    assert told.status == "done", told
    assert lake.rows() == expected
    assert len(expected) == 40 - 4 + 1
    assert not {file.path for file in lake.seen().data} & set(us)


@pytest.mark.conforms("M-183", "M-131")
def test_an_equality_delete_that_arrives_meanwhile_keeps_applying(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    us = paths(lake)
    expected: list[Any] = []

    def arrive() -> None:
        lake.delete_equal(ID, [(5,), (6,)], like=us[0])
        lake.append(rows_of(5))
        expected.extend(lake.spark_rows())

    assert lake.compact(report_progress=during(arrive)).status == "done"
    assert lake.spark_rows() == expected
    assert (5, "us", 5 / 7) in expected
    lake.compact()
    assert lake.rows() == expected


@pytest.mark.conforms("M-126")
def test_a_source_that_vanished_makes_its_bin_obsolete_and_no_other(lake: Lake) -> None:
    lake.append(rows_of(*range(20)), files=2)
    lake.append(rows_of(*range(100, 120), region="eu"), files=2)
    us = paths(lake)
    told = lake.compact(report_progress=during(lambda: lake.run("delete from {t} where region = 'us'")))
    assert (told.status, told.counters["bins"]) == ("done", 1)
    assert any(
        line.startswith("source file file:") and line.endswith("no longer in snapshot; compaction obsolete")
        for line in told.details
    )
    assert {row[1] for row in lake.rows()} == {"eu"}
    assert us[0] not in {file.path for file in lake.seen().data}
    lake.append(rows_of(*range(20)), files=2)
    alone = lake.compact(report_progress=during(lambda: lake.run("delete from {t} where region = 'us'")))
    assert alone.status == "failed"
    assert alone.sentence.startswith("source file ")
    assert lake.staged()


@pytest.mark.conforms("M-184", "M-199")
def test_deletes_and_inserts_of_one_key_around_a_rewrite_keep_the_right_row(lake: Lake) -> None:
    lake.append(rows_of(1, 2, 3))
    us = paths(lake)
    lake.delete_equal(ID, [(1,)], like=us[0])
    lake.append(rows_of(1, 9))
    lake.delete_equal(ID, [(2,)], like=us[0])
    before = lake.spark_rows()
    assert lake.compact().status == "done"
    assert lake.rows() == before
    lake.append(rows_of(2))
    assert [row[0] for row in lake.rows()] == [1, 2, 3, 9]


@pytest.mark.conforms("M-185", "M-200")
def test_a_delete_reaches_its_partition_and_a_global_one_reaches_every_spec(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, region string, v double", partitioned="region")
    lake.append(rows_of(1, 2) + rows_of(1, 2, region="eu"), files=1)
    lake.append(rows_of(3) + rows_of(3, region="eu"), files=1)
    lake.delete_equal(ID, [(1,)], like=paths(lake)[0])
    lake.run("alter table {t} replace partition field region with bucket(2, id)")
    lake.append(rows_of(1, 4), files=1)
    lake.delete_equal(ID, [(2,), (4,)])
    before = lake.spark_rows()
    assert lake.compact().status == "done"
    assert lake.rows() == before
    assert [row[:2] for row in before] == [(1, "eu"), (1, "us"), (3, "eu"), (3, "us")]


@pytest.mark.conforms("M-186")
def test_null_nan_and_zero_keys_match_as_iceberg_says(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "a bigint, b double, c string")
    nan = float("nan")
    lake.append(
        [
            (1, nan, "x"),
            (2, 0.0, "x"),
            (3, -0.0, "x"),
            (None, 1.0, None),
            (5, None, "y"),
            (6, None, None),
            (7, 2.0, "z"),
        ],
        files=2,
    )
    lake.delete_equal({"b": pa.float64()}, [(nan,)])
    lake.delete_equal({"b": pa.float64()}, [(-0.0,)])
    lake.delete_equal({"b": pa.float64(), "c": pa.string()}, [(None, "y"), (2.0, None)])
    lake.delete_equal({"a": pa.int64(), "c": pa.string()}, [(None, None)])
    before = lake.spark_rows()
    told = lake.compact()
    assert told.status == "done"
    assert lake.spark_rows() == before
    assert sorted(row[0] for row in before) == [2, 6, 7]


@pytest.mark.conforms("M-187")
def test_deletes_follow_field_ids_through_every_change_of_the_schema(lake_database: LakeDatabase) -> None:
    lake = Lake.make(
        lake_database, "l array<int>, m map<string, int>, s struct<x: int, k: bigint>, id int, gone string, v float"
    )
    lake.append(
        [([1], {"a": 1}, (1, 10), 1, "g", 1.5), ([2], None, (2, 20), 2, "h", 2.5), (None, {"b": 2}, None, 3, "i", 3.5)],
        files=2,
    )
    lake.delete_equal({"gone": pa.string()}, [("h",)])
    for change in ("rename column id to key", "alter column key type bigint", "drop column gone", "add column w int"):
        lake.run("alter table {t} " + change)
    lake.run("alter table {t} alter column v type double")
    lake.append([([4], {"c": 3}, (4, 40), 4, 4.5, 7)])
    lake.delete_equal({"key": pa.int64()}, [(3,)])
    before = lake.spark_rows()
    assert lake.compact().status == "done"
    assert lake.spark_rows() == before
    assert [row[3] for row in before] == [1, 4]


@pytest.mark.conforms("M-201")
def test_a_column_dropped_and_added_again_under_its_name_is_another_column(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, gone string")
    lake.append([(1, "old"), (2, "old")], files=2)
    lake.run("alter table {t} drop column gone")
    lake.run("alter table {t} add column gone string")
    lake.append([(3, "new")])
    assert lake.compact().status == "done"
    assert lake.rows() == [(1, None), (2, None), (3, "new")]


@pytest.mark.conforms("M-081")
def test_dangling_deletes_go_although_no_data_file_is_rewritten(lake: Lake) -> None:
    lake.append(rows_of(*range(10)))
    lake.append(rows_of(99, region="eu"))
    us = paths(lake)
    lake.delete_rows({us[0]: [1]}, like=us[0])
    lake.run("delete from {t} where region = 'us'")
    lake.append(rows_of(*range(10)))
    lake.delete_equal(ID, [(99999,)], like=paths(lake)[0])
    told = lake.compact(delete_compaction_min_deletes=9)
    assert (told.status, told.counters["bins"]) == ("done", 0)
    assert told.sentence.startswith("removed ")
    assert lake.seen().deletes == ()
    assert len(lake.rows()) == 11


@pytest.mark.conforms("M-209")
def test_a_bin_whose_rows_are_all_deleted_becomes_nothing(lake: Lake) -> None:
    lake.append(rows_of(1, 2))
    lake.append(rows_of(8, region="eu"))
    lake.delete_equal(ID, [(1,), (2,)], like=paths(lake)[0])
    told = lake.compact()
    assert told.sentence == "compacted 1 files into 0 (across 1 bins)"
    assert lake.rows() == rows_of(8, region="eu")
    assert lake.compact().status == "skipped"


@pytest.mark.conforms("M-082", "M-083", "M-178")
def test_position_deletes_are_merged_per_partition_and_again_gives_nothing(lake: Lake) -> None:
    lake.append(rows_of(*range(60)), files=2)
    us = paths(lake)
    for at in range(3):
        lake.delete_rows({us[0]: [at * 2]}, like=us[0])
        lake.delete_rows({us[0]: [at * 2 + 1], us[1]: [at]}, like=us[0])
    before = lake.spark_rows()
    with lake.context() as context:
        told = run_rewrite_position_delete_files(context)
    assert (told.status, told.sentence) == ("done", "rewrote 6 position delete files into 2 across 1 group(s)")
    assert lake.rows() == before
    assert {delete.referenced_file for delete in lake.seen().deletes} == set(us)
    with lake.context() as context:
        again = run_rewrite_position_delete_files(context)
    assert (again.status, again.sentence) == ("skipped", "no position delete files eligible for rewrite")
    assert lake.staged() == []


def test_equality_deletes_become_position_deletes(lake: Lake) -> None:
    lake.append(rows_of(*range(30)), files=2)
    lake.append(rows_of(*range(30), region="eu"))
    lake.delete_equal(ID, [(3,), (4,), (29,)], like=paths(lake)[0])
    lake.delete_equal(ID, [(7,), (12345,)])
    before = lake.spark_rows()
    with lake.context() as context:
        told = run_convert_deletes(context)
    assert told.status == "done", told
    assert {delete.kind for delete in lake.seen().deletes} == {"position"}
    assert lake.rows() == before
    with lake.context() as context:
        assert run_convert_deletes(context).sentence == "no equality delete files to convert"
    assert lake.compact().status == "done"
    assert lake.seen().deletes == ()
    assert lake.rows() == before
