"""Manifests held against files, and entries put right: bounds, counts, sizes, offsets; whatever else a manifest says
stays as it was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.extreme_rows import LONG, SCHEMA, assert_every_row_is_found, count_by_spark, plain_rows, strange_rows
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.lake.commit.java_metrics import java_metrics
from thermocline.lake.commit.java_values import list_of_longs
from thermocline.lake.read.manifest_entries import read_file_entries
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.manifest_repair import ManifestRepair, repair_table_manifests
from thermocline.maintain.verify_any import verify_lake_table
from thermocline.parquet.footer.file_metrics import FileMetrics
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.settings import Settings

MERGE_ON_READ = ", 'write.delete.mode' = 'merge-on-read'"
"""So that deletes leave the files they are about as they are."""


def repair(lake: Lake) -> ManifestRepair:
    return repair_table_manifests(
        lake.lake_database.dsn, lake.name, settings=Settings(dsn=lake.lake_database.dsn), spark=lambda: lake.spark
    )


def ages(lake: Lake) -> list[tuple[Any, ...]]:
    """What decides which deletes reach a file, and what its rows are called."""
    head = lake.head()
    assert head.snapshot_id is not None
    by_path = {file.path: file for file in read_file_entries(read_lake_table(head.metadata_location), head.snapshot_id)}
    return [
        (
            file.path,
            file.sequence_number,
            file.group,
            file.sort_order_id,
            file.first_row_id,
            by_path[file.path].snapshot_id,
        )
        for file in sorted(lake.seen().data, key=lambda file: file.path)
    ]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.conforms("M-219")
def test_entries_that_lie_are_found_by_column_and_put_right_with_every_files_age(
    lake_database: LakeDatabase, version: int
) -> None:
    lake = Lake.make(
        lake_database,
        "id bigint, name string, x double, filler string",
        partitioned="bucket(1, id)",
        properties=MERGE_ON_READ,
    )
    if version == 3:
        lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    both = pa.concat_tables([strange_rows(), plain_rows()])
    lake.append([(9_000, "other", 1.5, "f")])
    lake.add_file(both, row_group_size=3_000)
    lake.run("delete from {t} where id = 9000 or id = 17")
    assert count_by_spark(lake, "name = 'm'") == 0
    before, rows, snapshot = ages(lake), lake.spark.table(lake.sql_name).count(), lake.head().snapshot_id
    report = verify_lake_table(lake_database.dsn, lake.name)
    assert {problem.column for problem in report.problems} == {"name", "x"}, report.problems
    assert any("its lowest value 'a' lies below its lower bound 'x'" in str(problem) for problem in report.problems)
    done = repair(lake)
    assert (done.files, done.left, done.snapshot) == (1, (), lake.head().snapshot_id)
    assert verify_lake_table(lake_database.dsn, lake.name).is_exact
    assert (ages(lake), lake.spark.table(lake.sql_name).count()) == (before, rows)
    assert count_by_spark(lake, "name = 'm'") == 499
    assert count_by_spark(lake, f"name = '{LONG}'") == 1
    assert (lake.summary()["operation"], lake.head().snapshot_id != snapshot) == ("replace", True)
    assert repair(lake).files == 0
    kinds = lake_database.rows("select kind, phase from thermocline.op_log order by started_at")
    assert kinds[-1] == ("repair_manifests", "published")


def test_wrong_counts_sizes_and_offsets_are_named_and_put_right(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, name string, x double, filler string")
    head, path = lake.head(), f"{lake.head().location}/data/wrong.parquet"
    Path(without_file_scheme(path)).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table([[1, 2], ["a", "b"], [1.0, math.nan], ["f", "f"]], schema=SCHEMA), without_file_scheme(path)
    )
    lies = FileMetrics(
        rows=77, value_counts={1: 5}, null_counts={2: 3}, nan_counts={3: 0}, lower={1: bytes(8), 4: b"g"}
    )
    jvm: Any = lake.spark._jvm
    builder = (
        jvm.org.apache.iceberg.DataFiles.builder(head.table.spec())
        .withPath(path)
        .withFormat("parquet")
        .withFileSizeInBytes(4)
    )
    builder = builder.withMetrics(java_metrics(jvm, lies)).withSplitOffsets(list_of_longs(jvm, [2]))
    head.table.newAppend().appendFile(builder.build()).commit()
    said = [str(problem) for problem in verify_lake_table(lake_database.dsn, lake.name).problems]
    wanted = (
        "bytes, and its manifest says 4",
        ("it has 2 rows, and its manifest says 77"),
        "begin at 4, and its manifest says 2",
        "it has 2 values, and its manifest says 5",
        "0 of its values are NULL, and its manifest says 3",
        "1 of its values are NaN, and its manifest says 0",
        "its lowest value 'f' lies below its lower bound 'g'",
    )
    assert [part for part in wanted if not any(part in problem for problem in said)] == [], said
    assert repair(lake).files == 1
    assert verify_lake_table(lake_database.dsn, lake.name).is_exact
    assert count_by_spark(lake, "name = 'b'") == 1


def test_a_file_that_is_gone_is_named_and_left_to_others(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, name string, x double, filler string")
    lake.add_file(plain_rows())
    lake.add_file(pa.concat_tables([strange_rows(), plain_rows()]), row_group_size=3_000)
    Path(lake.seen().data[0].path.removeprefix("file://")).unlink()
    done = repair(lake)
    assert (done.files, len(done.left)) == (1, 1)
    assert "which no repair of manifests can help" in done.sentence


def test_a_repaired_lake_finds_every_row_with_every_reader(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, name string, x double, filler string")
    lake.add_file(pa.concat_tables([strange_rows(), plain_rows()]), row_group_size=3_000)
    assert repair(lake).files == 1
    assert_every_row_is_found(lake)
