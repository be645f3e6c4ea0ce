"""Sorted and z-ordered tables as readers meet them: which files a condition opens, and what is said where rows cannot
be ordered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake


def planned(lake: Lake, condition: str = "true") -> int:
    """How many files a reader plans for a condition."""
    table = StaticTable.from_metadata(lake.head().metadata_location.replace("file:/", "file:///", 1))
    return sum(1 for _ in table.scan(row_filter=condition).plan_files())


def totals(lake: Lake) -> Any:
    return lake.spark.sql(f"select count(*), sum(cast(xxhash64(*) as decimal(38, 0))) from {lake.sql_name}").collect()


@pytest.mark.conforms("M-072", "M-086")
def test_files_that_mix_keys_sort_into_files_of_one_or_two_and_a_condition_opens_few(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(lake_database, "payload_id int, body string")
    lake.run(
        "insert into {t} select cast(id div 2800 % 2 * 8 + id % 8 as int), sha2(cast(id as string), 512) "
        "from range(0, 179200, 1, 64)"
    )
    rows, size = totals(lake), sum(file.size_bytes for file in lake.seen().data)
    assert (planned(lake), planned(lake, "payload_id = 5")) == (64, 32)
    capped = lake.compact(rewrite_strategy="sort", sort_order="payload_id", sort_max_input_bytes=1 << 20)
    assert (capped.status, capped.sentence) == (
        "skipped",
        "no files eligible for sorted compaction within 1 MB sort input cap",
    )
    assert capped.details[0] == f"smallest bin: {size:,} bytes, cap {1 << 20:,} bytes"
    told = lake.compact(
        rewrite_strategy="sort", sort_order="payload_id", rewrite_target_bytes=size // 24, small_file_threshold_bytes=1
    )
    assert told.sentence.endswith("using sort (payload_id asc nulls-first)"), told
    kinds = f"select input_file_name(), count(distinct payload_id) from {lake.sql_name} group by 1"
    mixed = [row[1] for row in lake.spark.sql(kinds).collect()]
    assert (len(mixed) >= 16, max(mixed)) == (True, 2)
    assert max(planned(lake, f"payload_id = {value}") for value in range(16)) <= 4
    assert totals(lake) == rows
    assert {file.sort_order_id for file in lake.seen().data} == {0}


@pytest.mark.conforms("M-087")
def test_without_an_order_sort_fails_and_auto_packs_and_an_order_that_cannot_be_kept_is_said(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(lake_database, "id bigint, note string")
    lake.append([(at, f"n{at}") for at in range(60)], files=3)
    refused = lake.compact(rewrite_strategy="sort")
    assert (refused.status, refused.sentence) == ("failed", "sort rewrite requires a table sort order")
    packed = lake.compact(rewrite_strategy="auto")
    assert (packed.status, packed.sentence) == ("done", "compacted 3 files into 1 (across 1 bins)")
    assert "the table has no sort order, so its files are packed as they are" in packed.details
    lake.append([(at, f"n{at}") for at in range(60, 120)], files=3)
    jvm: Any = lake.spark._jvm
    nought = jvm.org.apache.iceberg.expressions.Expressions.transform(
        "id", jvm.org.apache.iceberg.transforms.Transforms.alwaysNull()
    )
    lake.head().table.replaceSortOrder().asc(nought, jvm.org.apache.iceberg.NullOrder.NULLS_FIRST).commit()
    why = "rows cannot be sorted by void(id), so files are packed as they are"
    assert why in lake.compact(rewrite_strategy="auto", dry_run=True).details
    told = lake.compact(rewrite_strategy="sort")
    assert (told.status, told.sentence) == ("done", "compacted 4 files into 1 (across 1 bins)")
    assert why in told.details
    assert {file.sort_order_id for file in lake.seen().data} == {0}
    assert len(lake.rows()) == 120


@pytest.mark.conforms("M-093")
def test_a_condition_on_two_columns_opens_a_fifth_of_the_files_or_less_after_z_order(
    lake_database: LakeDatabase,
) -> None:
    """The part of the item that is no timing; what sort and z-order cost over bin-pack is measured by
    `bench/compaction_sort.py`."""
    lake = Lake.make(lake_database, "a double, b decimal(9, 4), body string")
    lake.run(
        "insert into {t} select rand(1), cast(pow(rand(2), 9) * 9999 as decimal(9, 4)), sha2(cast(id as string), 512)"
        " from range(0, 180000, 1, 8)"
    )
    rows, size = totals(lake), sum(file.size_bytes for file in lake.seen().data)
    condition = "a >= 0.5 and a <= 0.55 and b >= 0.2000 and b <= 0.4000"
    cut = {
        "rewrite_target_bytes": size // 24,
        "small_file_threshold_bytes": 1 << 40,
        "splice_min_row_group_bytes": 1 << 40,
    }
    assert lake.compact(**cut).status in ("done", "skipped")
    packed = planned(lake, condition)
    assert packed == planned(lake)
    start = lake.head().snapshot_id
    for curve in ("zorder", "hilbert"):
        told = lake.compact(rewrite_strategy=curve, zorder_columns=("a", "b"), **cut)
        assert told.sentence.endswith(f"using {curve} (a, b)"), told
        assert planned(lake) >= 18
        assert 0 < planned(lake, condition) <= planned(lake) / 5
        assert totals(lake) == rows
        lake.run(f"call thermocline.system.rollback_to_snapshot('db.events', {start})")


@pytest.mark.parametrize("order", ["bucket(8, body)", "body", "days(at)", "x DESC NULLS FIRST"])
def test_a_pass_right_after_a_sort_finds_nothing_and_what_is_appended_is_sorted_in(
    lake_database: LakeDatabase, order: str
) -> None:
    lake = Lake.make(lake_database, "id bigint, at timestamp, x double, body string")
    rows = (
        "insert into {{t}} select id, timestamp_seconds(1700000000 + hash(id) % 86400), if(id % 9 = 0, null, "
        "double(hash(id))),"
        " concat('a prefix that is in common ', sha2(cast(id as string), 512)) from range({}, {}, 1, 6)"
    )
    lake.run(rows.format(0, 60_000))
    lake.run(f"alter table {{t}} write ordered by {order}")
    size = sum(file.size_bytes for file in lake.seen().data)
    how = {"rewrite_strategy": "sort", "rewrite_target_bytes": size // 12, "small_file_threshold_bytes": 1}
    first = lake.compact(**how)
    assert (first.status, len(lake.seen().data) >= 6) == ("done", True), first
    again = lake.compact(**how)
    assert (again.status, again.counters["bins"]) == ("skipped", 0), again
    before = {file.path for file in lake.seen().data}
    found = lake.spark.table(lake.sql_name).where("id < 50").toArrow()
    numbered = pa.schema(
        [field.with_metadata({"PARQUET:field_id": str(at + 1)}) for at, field in enumerate(found.schema)]
    )
    for _ in range(2):
        lake.add_file(found.cast(numbered), store_schema=False)
    told = totals(lake)
    appended = {file.path for file in lake.seen().data} - before
    sorted_in = lake.compact(**how)
    assert (sorted_in.status, sorted_in.counters["files_merged"]) == ("done", 2), sorted_in
    assert not appended & {file.path for file in lake.seen().data}
    assert totals(lake) == told
    assert lake.compact(**how).status == "skipped"


@pytest.mark.conforms("M-202")
def test_equality_deletes_by_a_nested_and_a_renamed_column_behind_lists_and_maps_are_applied_by_a_pass(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(
        lake_database, "tags array<string>, m map<string, int>, s struct<code: int, inner: struct<text: string>>, n int"
    )
    rows = [([f"t{at}", None], {"k": at}, (at % 5, (f"x{at}",)) if at % 7 else None, at) for at in range(40)]
    lake.append(rows, files=2)
    fields = {field["name"]: field for field in lake.head().metadata["schemas"][-1]["fields"]}
    code, inner = fields["s"]["type"]["fields"]
    text = inner["type"]["fields"][0]

    def tagged(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})

    by_text = tagged("inner", pa.struct([tagged("text", pa.string(), text["id"])]), inner["id"])
    nested = tagged("s", pa.struct([tagged("code", pa.int32(), code["id"]), by_text]), fields["s"]["id"])
    keys = [{"code": 3, "inner": {"text": "x8"}}, {"code": 4, "inner": {"text": "x3"}}, None]
    add_equal(lake, pa.table([pa.array(keys, nested.type)], schema=pa.schema([nested])), [code["id"], text["id"]])
    add_equal(
        lake,
        pa.table([pa.array([1], pa.int32())], schema=pa.schema([tagged("n", pa.int32(), fields["n"]["id"])])),
        [fields["n"]["id"]],
    )
    lake.run("alter table {t} rename column n to renamed")
    lake.run("alter table {t} rename column s.inner.text to said")
    lake.run("alter table {t} alter column s.code type bigint")
    lake.append([([], {}, (3, ("x8",)), 100)], files=1)
    told = lake.compact()
    assert told.status == "done", told
    left = [row for row in rows if row[2] is not None and row[2] != (3, ("x8",)) and row[3] != 1]
    found = lake.spark.sql(
        f"select renamed, s.code, s.inner.said, tags, m from {lake.sql_name} order by renamed"
    ).collect()
    assert [tuple(row) for row in found] == [(n, s[0], s[1][0], tags, m) for tags, m, s, n in left if s] + [
        (100, 3, "x8", [], {})
    ]
    assert not lake.seen().deletes


def add_equal(lake: Lake, keys: pa.Table, ids: list[int]) -> None:
    """A file of equality deletes with columns of any depth."""
    path = lake._new_path("eq")
    pq.write_table(keys, path.removeprefix("file://"))
    gateway: Any = lake.spark.sparkContext._gateway
    jvm: Any = lake.spark._jvm
    array = gateway.new_array(jvm.int, len(ids))
    for at, field_id in enumerate(ids):
        array[at] = field_id
    lake._add_delete(path, lambda builder: builder.ofEqualityDeletes(array), None, keys.num_rows)
