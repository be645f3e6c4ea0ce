"""Tables of format version 3: deletion vectors, row lineage, defaults, new types; what Spark reads before and after
each operation."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.maintenance_ops import (
    run_convert_deletes,
    run_expire_snapshots,
    run_remove_orphans,
    run_rewrite_manifests,
    run_rewrite_position_delete_files,
)
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake

from thermocline.errors.maintenance import FormatVersionUnsupported, LakeTypeUnknown
from thermocline.lake.read.table_metadata import read_lake_table

MODES = ", 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"


def make(lake_database: LakeDatabase, columns: str = "id bigint, name string", **changes: Any) -> Lake:
    lake = Lake.make(lake_database, columns, properties=MODES, **changes)
    lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    return lake


def with_lineage(lake: Lake) -> list[tuple[Any, ...]]:
    """Every row with its id and the commit that last changed it, as Spark says."""
    found = lake.spark.sql(f"select *, _row_id, _last_updated_sequence_number from {lake.sql_name}").collect()
    return sorted((tuple(row) for row in found), key=repr)


def puffins(lake: Lake) -> set[Path]:
    return set(Path(lake.head().location.removeprefix("file:")).rglob("*.puffin"))


@pytest.mark.conforms("M-189")
def test_a_deletion_vector_leaves_with_its_file_and_every_row_keeps_its_lineage(lake_database: LakeDatabase) -> None:
    lake = make(lake_database, "id bigint, part string", partitioned="part")
    for part in ("a", "b"):
        lake.append([(at, part) for at in range(60)], files=2)
    lake.run("delete from {t} where id % 7 = 3")
    lake.run("update {t} set id = id + 1000 where id % 10 = 5")
    before = with_lineage(lake)
    assert len({row[-1] for row in before}) > 2
    vectors = lake.seen().deletes
    assert {vector.kind for vector in vectors} == {"vector"}
    assert len({vector.path for vector in vectors}) < len(vectors), "several vectors lie in one file"
    assert lake.compact(where="part = 'a'").status == "done"
    assert with_lineage(lake) == before
    assert {vector.partition for vector in lake.seen().deletes} == {("b",)}
    told = lake.compact()
    assert (told.status, lake.seen().deletes, with_lineage(lake)) == ("done", (), before)
    assert lake.compact().status == "skipped"
    assert [(row[0], row[1]) for row in before] == sorted(lake.rows(), key=repr)


@pytest.mark.conforms("M-206")
def test_rows_keep_their_lineage_when_files_are_rewritten_again_sorted_or_upgraded(lake_database: LakeDatabase) -> None:
    lake = Lake.make(lake_database, "id bigint, name string", properties=MODES)
    lake.append([(at * 7 % 50, f"name {at}") for at in range(50)], files=3)
    lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    assert lake.compact().status == "done", "before any row has an id"
    lake.append([(at, "later") for at in range(100, 120)], files=2)
    before = with_lineage(lake)
    assert None not in {row[-2] for row in before}
    assert lake.compact().status == "done"
    assert with_lineage(lake) == before
    lake.run("delete from {t} where id = 101")
    lake.append([(at, "last") for at in range(200, 210)])
    before = with_lineage(lake)
    assert lake.compact(rewrite_strategy="sort", sort_order="id desc").status == "done"
    assert with_lineage(lake) == before
    lake.append([(1, "one"), (2, "two")], files=2)
    before = with_lineage(lake)
    lake.run("call thermocline.system.rewrite_data_files(table => 'db.events', options => map('rewrite-all', 'true'))")
    assert with_lineage(lake) == before, "Iceberg's own rewrite reads what ours wrote"
    lake.append([(at, "x") for at in range(300, 310)], files=2)
    options = "map('rewrite-all', 'true', 'max-file-group-size-bytes', '1')"
    lake.run(f"call thermocline.system.rewrite_data_files(table => 'db.events', options => {options})")
    before = with_lineage(lake)
    told = lake.compact()
    assert (told.counters["files_merged"], told.counters["files_written"]) == (3, 1)
    assert not [line for line in told.details if "re-encoded" in line], (
        "rows that say all of it themselves are copied byte for byte"
    )
    assert with_lineage(lake) == before


def test_expiry_sweep_and_manifests_know_the_files_of_deletion_vectors(lake_database: LakeDatabase) -> None:
    lake = make(lake_database)
    for first in (0, 100):
        lake.append([(at, "x") for at in range(first, first + 100)], files=2)
    lake.run("delete from {t} where id % 9 = 1")
    (kept,) = puffins(lake)
    rows = with_lineage(lake)
    lake.now = datetime.now(UTC) + timedelta(days=60)
    with lake.context(
        policy={"snapshot_min_retained": 1, "snapshot_retention_ms": 1, "manifest_rewrite_min_manifests": 2}
    ) as context:
        for operation in (run_rewrite_manifests, run_expire_snapshots, run_remove_orphans):
            assert operation(context).status in ("done", "skipped")
            assert (puffins(lake), with_lineage(lake)) == ({kept}, rows)
        assert lake.compact().status == "done"
        assert run_expire_snapshots(context).status == "done"
    assert (puffins(lake), with_lineage(lake)) == (set(), rows)


def test_what_a_column_reads_as_in_older_files_is_written_out(lake_database: LakeDatabase) -> None:
    lake = make(lake_database)
    for first in (0, 10):
        lake.append([(at, "a") for at in range(first, first + 10)])
    iceberg: Any = lake_database.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    update = lake.head().table.updateSchema()
    for name, kind, value in (
        ("n", "int", 5),
        ("t", "string", "it's"),
        ("d", "date", "2026-02-03"),
        ("at", "timestamptz", _AT),
    ):
        literal = iceberg.expressions.Expressions.lit(value).to(iceberg.types.Types.fromPrimitiveString(kind))
        update = update.addColumn(name, iceberg.types.Types.fromPrimitiveString(kind), literal)
    update.commit()
    lake_database.spark.sql(f"refresh table {lake.sql_name}")
    before = with_lineage(lake)
    assert before[0][2:4] == (5, "it's")
    assert lake.compact().status == "done"
    assert with_lineage(lake) == before
    table = pq.read_table(lake.seen().data[0].path.removeprefix("file://"))
    assert table.column("n").to_pylist() == [5] * 20
    told = {field.name: field.missing for field in read_lake_table(lake.head().metadata_location).fields}
    assert told == {"id": None, "name": None, "n": "5", "t": "it's", "d": "2026-02-03", "at": _AT.replace("T", " ")}


_AT = "2026-02-03T04:05:06.000007+00:00"


def test_nanoseconds_and_columns_without_a_type_are_kept_and_other_types_are_refused_by_name(
    lake_database: LakeDatabase,
) -> None:
    lake = of_types(
        lake_database, "kept", {"id": "long", "at": "timestamp_ns", "zoned": "timestamptz_ns", "nothing": "unknown"}
    )
    for first in (0, 1):
        add_nanoseconds(lake, first)
    assert lake.compact().status == "done"
    (file,) = lake.seen().data
    table = pq.read_table(file.path.removeprefix("file://"))
    assert table.column_names == ["id", "at", "zoned", "_row_id", "_last_updated_sequence_number"]
    assert [value.value for value in table.column("at")] == [1, 1_000_000_001]
    assert table.column("_row_id").to_pylist() == [0, 1]
    for kind in ("geometry", "geography"):
        refused = of_types(lake_database, kind, {"id": "long", "shape": kind}, rows=True).compact()
        assert refused.status == "failed"
        assert f"Column shape has type {kind}" in refused.sentence
    lake_database.spark.sql(
        "create table thermocline.db.variants (id bigint, v variant) using iceberg tblproperties "
        "('format-version' = '3')"
    )
    other = Lake.adopt(lake_database, "variants")
    other.run("insert into {t} select id, parse_json('[1]') from range(4)")
    with pytest.raises(LakeTypeUnknown, match=r"Column v of lake table .* is variant"):
        read_lake_table(other.head().metadata_location)
    refused = other.compact()
    assert (refused.status, "Column v has type variant" in refused.sentence) == ("failed", True)


def of_types(lake_database: LakeDatabase, table: str, columns: dict[str, str], *, rows: bool = False) -> Lake:
    """A table with columns that Spark has no types for."""
    jvm: Any = lake_database.spark._jvm
    lake_database.spark.sql("create namespace if not exists thermocline.db")
    fields = [
        {"id": at, "name": name, "required": False, "type": kind}
        for at, (name, kind) in enumerate(columns.items(), start=1)
    ]
    schema = jvm.org.apache.iceberg.SchemaParser.fromJson(
        json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
    )
    catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(
        lake_database.spark._jsparkSession, "thermocline"
    )
    space: Any = lake_database.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    space[0] = "db"
    name = jvm.org.apache.iceberg.catalog.TableIdentifier.of(jvm.org.apache.iceberg.catalog.Namespace.of(space), table)
    catalog.createTable(name, schema, jvm.org.apache.iceberg.PartitionSpec.unpartitioned(), {"format-version": "3"})
    lake = Lake.adopt(lake_database, table)
    if rows:
        lake.add_file(
            pa.table(
                [pa.array([1])], schema=pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
            )
        )
    return lake


def add_nanoseconds(lake: Lake, second: int) -> None:
    moment = second * 1_000_000_000 + 1
    kinds = {"id": pa.int64(), "at": pa.timestamp("ns"), "zoned": pa.timestamp("ns", "UTC")}
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(at)})
        for at, (name, kind) in enumerate(kinds.items(), start=1)
    ]
    lake.add_file(
        pa.table([pa.array([moment], pa.int64()).cast(kind) for kind in kinds.values()], schema=pa.schema(fields))
    )


def test_a_version_nobody_knows_is_refused_by_its_number_before_any_work(lake_database: LakeDatabase) -> None:
    lake = make(lake_database)
    lake.append([(1, "a"), (2, "b")], files=2)
    lake.run("alter table {t} set tblproperties ('format-version' = '4')")
    files = set(Path(lake.head().location.removeprefix("file:")).rglob("*"))
    with lake.context() as context:
        for operation in (run_convert_deletes, run_expire_snapshots, run_remove_orphans, run_rewrite_manifests):
            try:
                told = operation(context)
                assert told.status == "failed", told
                sentence = told.sentence
            except FormatVersionUnsupported as refusal:
                sentence = str(refusal)
            assert "format version 4" in sentence
    assert "format version 4" in lake.compact().sentence
    assert set(Path(lake.head().location.removeprefix("file:")).rglob("*")) == files


def test_deletion_vectors_that_arrive_meanwhile_are_moved_along_and_those_taken_back_cost_the_bin(
    lake_database: LakeDatabase,
) -> None:
    lake = make(lake_database)
    lake.append([(at, f"name {at}") for at in range(40)], files=2)
    lake.append([(at, f"name {at}") for at in range(40, 60)])
    lake.run("delete from {t} where id % 10 = 3")
    lake.run("delete from {t} where id % 10 = 4")
    assert (
        lake.compact(report_progress=meanwhile(lake, "delete from {t} where id % 10 in (5, 3) or id = 59")).status
        == "done"
    )
    assert len(lake.seen().data) == 1
    (vector,) = lake.seen().deletes
    assert (vector.kind, vector.record_count) == ("vector", 7)
    assert {row[0] for row in lake.rows()} == {at for at in range(59) if at % 10 not in (3, 4, 5)}
    before = with_lineage(lake)
    assert lake.compact(delete_compaction_min_deletes=1).status == "done"
    assert (with_lineage(lake), lake.seen().deletes) == (before, ())
    lake.append([(at, "more") for at in range(70, 90)], files=2)
    lake.run("delete from {t} where id = 71")
    kept = lake.head().metadata["snapshots"][-2]["snapshot-id"]
    told = lake.compact(
        report_progress=meanwhile(lake, f"call thermocline.system.rollback_to_snapshot('db.events', {kept})")
    )
    assert told.status == "failed"
    assert "taken back" in told.sentence
    assert 71 in {row[0] for row in lake.rows()}


def test_equality_deletes_become_deletion_vectors_that_hold_what_was_deleted_before(
    lake_database: LakeDatabase,
) -> None:
    lake = make(lake_database)
    lake.append([(at, f"name {at}") for at in range(40)], files=2)
    lake.run("delete from {t} where id in (3, 33)")
    lake.delete_equal({"id": pa.int64()}, [(4,), (34,), (99,)])
    before = with_lineage(lake)
    assert len(before) == 36
    with lake.context() as context:
        told = run_convert_deletes(context)
        assert told.sentence == "converted 1 equality delete files into 2 position delete files"
        assert run_convert_deletes(context).status == "skipped"
        merged = run_rewrite_position_delete_files(context)
    assert (merged.status, "deletion vectors, one for each file" in merged.sentence) == ("failed", True)
    assert with_lineage(lake) == before
    assert [(delete.kind, delete.record_count) for delete in lake.seen().deletes] == [("vector", 2), ("vector", 2)]
    assert lake.compact().status == "done"
    assert with_lineage(lake) == before


def meanwhile(lake: Lake, statement: str) -> Any:
    """Runs a statement once, when the first bin is written and not yet committed."""
    left = [statement]

    def report_progress(line: object) -> None:
        if str(line).startswith("compact bin") and left:
            lake.run(left.pop())

    return report_progress
