"""What a rewrite leaves in the metadata: statistics, offsets, orders, summaries, manifests, and every earlier snapshot
as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table import StaticTable
from tests.maintenance_ops import (
    run_convert_deletes,
    run_expire_snapshots,
    run_rewrite_manifests,
    run_rewrite_position_delete_files,
)
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.lake.read.storage import LakeReader
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.runtime.locations import without_file_scheme

METRICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
PATH_ID, POSITION_ID = 2_147_483_546, 2_147_483_545


def columns_of(lake: Lake, *names: str, of: str = "data_files") -> list[Any]:
    return lake.spark.sql(f"select {', '.join(names)} from {lake.sql_name}.{of}").collect()


@pytest.mark.conforms("M-196")
def test_a_rewrite_leaves_ids_statistics_offsets_order_lineage_and_the_writers_own_notes(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(
        lake_database, "id bigint, x double, name string", properties=", 'write.delete.mode'='merge-on-read'"
    )
    lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    lake.run("insert into {t} select id * 7 % 600, id / 3, concat('name ', id % 7) from range(0, 600, 1, 3)")
    lake.run("alter table {t} write ordered by id")
    assert lake.compact(rewrite_strategy="sort").status == "done"
    lake.run("delete from {t} where id % 5 = 0")
    rows = lake.spark.range(1000, 1003).selectExpr("id", "cast(id as double) x", "cast(null as string) name")
    rows.coalesce(1).writeTo(lake.sql_name).option("snapshot-property.kafka.connect.offsets", "42").append()
    lineage = f"select *, _row_id, _last_updated_sequence_number from {lake.sql_name} order by id"
    before, told = lake.spark.sql(lineage).collect(), columns_of(lake, *METRICS)
    assert lake.compact(rewrite_enabled=False).status == "done", "the file in debt alone"
    after = columns_of(
        lake, *METRICS, "sort_order_id", "split_offsets", "file_path", "record_count", "file_size_in_bytes"
    )
    assert lake.spark.sql(lineage).collect() == before
    assert [file.sort_order_id for file in after] == [1, 1], "one file's rows stay in its order"
    assert lake.summary()["kafka.connect.offsets"] == "42"
    for name in METRICS:
        assert {tuple(sorted(file[name] or ())) for file in after} >= {
            tuple(sorted(file[name] or ())) for file in told
        }, name
    rewritten = next(file for file in after if file.record_count == 480)
    parquet = pq.ParquetFile(without_file_scheme(rewritten.file_path))
    ids = [int(column.metadata[b"PARQUET:field_id"]) for column in parquet.schema_arrow]
    assert ids == [1, 2, 3, 2_147_483_540, 2_147_483_539]
    starts = [parquet.metadata.row_group(at).column(0) for at in range(parquet.metadata.num_row_groups)]
    assert rewritten.split_offsets == [start.dictionary_page_offset or start.data_page_offset for start in starts]


@pytest.mark.conforms("M-196")
def test_every_rewrite_counts_nan_as_spark_did(lake_database: LakeDatabase) -> None:
    """A Parquet footer does not tell them: copied row groups have what their files had together, others are counted."""
    lake = Lake.make(
        lake_database,
        "id bigint, x double, s struct<y: float, name: string>",
        properties=", 'write.delete.mode'='merge-on-read'",
    )
    nan = "cast('NaN' as double)"
    lake.run(
        f"insert into {{t}} select id, if(id % 5 = 0, {nan}, id), named_struct('y', cast(if(id % 3 = 0, "
        f"{nan}, 1) as float), 'name', 'n')"
        " from range(0, 300, 1, 3)"
    )

    def counted() -> list[dict[int, int]]:
        return [dict(file.nan_value_counts) for file in columns_of(lake, "nan_value_counts")]

    by_spark = counted()
    assert len(by_spark) == 3
    x, y = sorted(by_spark[0])
    assert [sum(told[field_id] for told in by_spark) for field_id in (x, y)] == [60, 100]
    assert lake.compact().status == "done"
    assert counted() == [{x: 60, y: 100}], "spliced"
    lake.run("delete from {t} where id % 10 = 0")
    assert lake.compact(delete_compaction_min_deletes=1).status == "done"
    assert counted() == [{x: 30, y: 90}], "re-encoded"
    lake.run(
        f"insert into {{t}} values (1000, {nan}, null), (1001, 1, named_struct('y', cast(1 as float), 'name', 'm'))"
    )
    lake.run("alter table {t} write ordered by id")
    assert lake.compact(rewrite_strategy="sort").status == "done"
    assert counted() == [{x: 31, y: 90}], "sorted"


@pytest.mark.conforms("M-211")
def test_outputs_and_merged_deletes_have_bounds_and_no_query_opens_more_files_than_before(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(lake_database, "id bigint, x double, name string, day date", partitioned="day")
    for day in ("2026-01-01", "2026-01-02"):
        lake.run(
            "insert into {t} select id, if(id = 7, double('NaN'), id / 3),"
            " if(id % 50 = 0, null, concat('name with a long beginning ', id)),"
            f" date'{day}' from range(0, 400, 1, 4)"
        )
    before = opened(lake)
    for at, file in enumerate(lake.seen().data):
        lake.delete_rows({file.path: [at]}, like=file.path)
        lake.delete_rows({file.path: [at + 5]}, like=file.path)
    rows = list(map(repr, lake.spark_rows()))
    with lake.context(policy={"delete_min_input_files": 2}) as context:
        assert run_rewrite_position_delete_files(context).status == "done"
    assert list(map(repr, lake.spark_rows())) == rows
    for delete in lake.seen().deletes:
        schema = pq.read_schema(without_file_scheme(delete.path))
        assert [int(column.metadata[b"PARQUET:field_id"]) for column in schema] == [PATH_ID, POSITION_ID]
    for delete in columns_of(lake, "lower_bounds", "upper_bounds", "record_count", of="delete_files"):
        assert set(delete.lower_bounds) >= {PATH_ID}
        assert delete.lower_bounds[PATH_ID] <= delete.upper_bounds[PATH_ID]
    assert lake.compact().status == "done"
    assert list(map(repr, lake.spark_rows())) == rows
    for file in columns_of(lake, *METRICS):
        assert set(file.column_sizes) == set(file.value_counts) == {1, 2, 3, 4}
        assert set(file.null_value_counts) == {1, 3, 4}  # NULLs of floats stand in no footer
        assert (set(file.lower_bounds), set(file.upper_bounds)) == (
            {1, 2, 3, 4},
            {1, 3, 4},
        )  # NaN is above every number
    after = opened(lake)
    assert all(now <= was for now, was in zip(after, before, strict=True)), (before, after)
    assert after[-1] == 0


def opened(lake: Lake) -> list[int]:
    """How many files a few queries open."""
    table = StaticTable.from_metadata(lake.head().metadata_location.replace("file:/", "file:///", 1))
    asked = (
        "day = '2026-01-02'",
        "id = 17",
        "id >= 100 and id < 120",
        "name is null",
        ("name = 'name with a long beginning 33'"),
        "name = 'nobody'",
        "id >= 400",
    )
    return [len(list(table.scan(row_filter=condition).plan_files())) for condition in asked]


@pytest.mark.conforms("M-212", "M-198")
def test_files_that_stay_are_existing_with_the_snapshot_and_age_they_had(lake_database: LakeDatabase) -> None:
    properties = ", 'write.delete.mode'='merge-on-read'"
    lake = Lake.make(lake_database, "id bigint, part string", partitioned="part", properties=properties)
    rows = lake.spark.range(0, 90).selectExpr("id", "if(id % 3 = 0, 'a', if(id % 3 = 1, 'b', 'c')) part").repartition(2)
    rows.writeTo(lake.sql_name).append()
    lake.append([(at, "a") for at in range(100, 110)])
    lake.run("delete from {t} where id < 8")
    entries = {entry.data_file.file_path: entry for _, entry in entries_of(lake)}
    assert lake.compact(where="part = 'a'").status == "done"
    current = lake.head().snapshot_id
    found = entries_of(lake)
    stayed = [entry for _, entry in found if entry.status == ManifestEntryStatus.EXISTING]
    assert len(stayed) >= 4
    for entry in stayed:
        known = entries[entry.data_file.file_path]
        assert (entry.snapshot_id, entry.sequence_number) == (known.snapshot_id, known.sequence_number)
    assert {entry.snapshot_id for _, entry in found if entry.status != ManifestEntryStatus.EXISTING} == {current}
    for manifest in {manifest.manifest_path: manifest for manifest, _ in found}.values():
        mine = [entry for other, entry in found if other == manifest and entry.status != ManifestEntryStatus.DELETED]
        if mine:
            assert manifest.min_sequence_number == min(entry.sequence_number for entry in mine)
        assert {entry.data_file.content != DataFileContent.DATA for entry in mine} <= {
            manifest.content == ManifestContent.DELETES
        }


def entries_of(lake: Lake) -> list[tuple[Any, Any]]:
    """Every entry of every manifest of the current snapshot, those that left too."""
    snapshot = read_lake_table(lake.head().metadata_location).metadata.current_snapshot()
    assert snapshot is not None
    reader = LakeReader()
    return [
        (found, entry)
        for found in snapshot.manifests(reader)
        for entry in found.fetch_manifest_entry(reader, discard_deleted=False)
    ]


@pytest.mark.conforms("M-004")
def test_only_expiry_removes_bytes_and_every_earlier_snapshot_is_read_as_it_was(lake_database: LakeDatabase) -> None:
    properties = ", 'write.delete.mode'='merge-on-read', 'commit.manifest-merge.enabled'='false'"
    lake = Lake.make(lake_database, "id bigint, part string", properties=properties)
    for first in (0, 100):
        lake.append([(at, "x") for at in range(first, first + 100)], files=3)
    for row in (1, 2):
        lake.delete_rows({lake.seen().data[0].path: [row]})
    lake.delete_equal({"id": pa.int64()}, [(3,), (4,)])
    seen, files = snapshots_of(lake), files_of(lake)
    changes = {"delete_min_input_files": 2, "manifest_rewrite_min_manifests": 2, "delete_compaction_min_deletes": 1}
    with lake.context(policy=changes) as context:
        for operation in (run_rewrite_position_delete_files, run_convert_deletes, run_rewrite_manifests):
            assert operation(context).status == "done", operation
            assert snapshots_of(lake).items() >= seen.items()
            assert files_of(lake) > files
            seen, files = snapshots_of(lake), files_of(lake)
        assert lake.compact(**changes).status == "done"
        assert snapshots_of(lake).items() >= seen.items()
        assert files_of(lake) > files
        rows = lake.rows()
    lake.now = lake.now.replace(year=lake.now.year + 1)
    with lake.context(policy={"snapshot_min_retained": 1, "snapshot_retention_ms": 1}) as context:
        assert run_expire_snapshots(context).status == "done"
    assert not files <= files_of(lake)
    assert lake.rows() == rows


def snapshots_of(lake: Lake) -> dict[int, list[Any]]:
    ids = [snapshot["snapshot-id"] for snapshot in lake.head().metadata["snapshots"]]
    return {
        found: sorted(map(tuple, lake.spark.sql(f"select * from {lake.sql_name} version as of {found}").collect()))
        for found in ids
    }


def files_of(lake: Lake) -> set[Path]:
    return {path for path in Path(without_file_scheme(lake.head().location)).rglob("*") if path.is_file()}
