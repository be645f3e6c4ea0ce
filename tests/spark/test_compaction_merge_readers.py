"""Files of Spark's writer, merged: read by Spark with and without vectors, through Iceberg, by DuckDB and PyIceberg,
with filters too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake
from tests.spark.rewrite_bin import read_by_spark, render_exact, rewrite_bin
from tests.unit.bins import Bin, read_by_duckdb
from tests.unit.check_parquet import check_parquet
from tests.unit.mixed_encodings import ICEBERG, WRITERS, make_rows
from tests.unit.mixed_encodings import ROWS as ROWS_EACH

from thermocline.parquet.copy import merge_plan

COLUMNS = (
    "id bigint, k int, x double, f float, m decimal(9,2), w decimal(38,3), day date, at timestamp, t string, "
    "raw binary, ok boolean,"
    " kind string, s struct<a: int, b: string>, tags array<string>, kv map<string, int>"
)
ROWS = """
insert into {t} select id, if(id % 7 = 0, null, cast(id % 1000 - 500 as int)),
  case id % 50 when 0 then double('NaN') when 1 then -0.0D when 2 then null else (id - 3000) / 7 end,
  cast(id as float) / 3,
  cast(id - 2500 as decimal(9,2)), cast(id - 2500 as decimal(38,3)) * 1000000000000,
  date_add(date'2020-01-01', cast(id % 900 as int)),
  timestamp_seconds(1700000000 + id), if(id % 11 = 0, null, concat('text ', id)), cast(concat('raw', id) as binary),
  id % 3 = 0,
  element_at(array('a', 'b', 'c', 'd'), cast((id + {shift}) % 4 + 1 as int)),
  if(id % 13 = 0, null, named_struct('a', cast(id as int), 'b', concat('b', id))),
  if(id % 5 = 0, null, array('x', null, concat('t', id))), map('k', cast(id as int))
from range({first}, {last}, 1, 1)"""
FILTERS = (
    "id = 4321",
    "id between 1990 and 2010",
    "k = -500",
    "x > 415.0D",
    "x < -427.5D",
    "m = 17.00",
    "w > 2499000000000000",
    "t = 'text 3334'",
    "t is null",
    "raw = cast('raw77' as binary)",
    "kind = 'd' and id < 9",
    "day = date'2020-02-01'",
    "at = timestamp_seconds(1700005999)",
    "f > 1998.5",
    "k is null and id > 5990",
    "s.a = 4444",
    "isnan(x) and id > 5900",
)


READERS = ("enableVectorizedReader", "enableNestedColumnVectorizedReader")


@contextmanager
def settings(spark: Any, *names: str, to: str) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in names}
    for name in names:
        spark.conf.set(name, to)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_merged_files_of_sparks_writer_read_as_before_whatever_is_asked(
    lake_database: LakeDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_plan, "MIN_PAGE_VALUES", 0)  # pages of 200 rows, so that filters have pages to leave out
    monkeypatch.setattr(merge_plan, "LEAST_COPIED", 0.0)
    lake = Lake.make(
        lake_database,
        COLUMNS,
        properties=", 'write.parquet.page-row-limit' = '200', 'write.parquet.compression-codec' = 'zstd'",
    )
    for number in range(3):
        lake.run(
            ROWS.replace("{shift}", str(number))
            .replace("{first}", str(number * 2000))
            .replace("{last}", str(number * 2000 + 2000))
        )
    result = rewrite_bin(lake, tmp_path, "splice", splice_min_row_group_bytes=1 << 40)
    assert (result.kernel, result.rows_written) == ("merge", 6000)
    assert "kind" in result.note.partition("encoded again: ")[2].split(", ")
    seen = check_parquet(result.outputs[0].path.removeprefix("file://"))
    assert (seen.groups, seen.bounded_chunks) == (1, 10), "all but floats and what is nested"
    assert seen.bounded_pages > 200
    rows = lake_database.spark.table(lake.sql_name).localCheckpoint()  # in memory, where no filter leaves a file out
    expected = {condition: sorted(rows.where(condition).select("id").collect()) for condition in FILTERS}
    assert all(expected.values())
    before = render_exact(lake.spark_rows())
    for vectorised in ("true", "false"):
        with settings(lake_database.spark, *("spark.sql.parquet." + name for name in READERS), to=vectorised):
            assert render_exact(read_by_spark(lake, result)) == before
            read = lake_database.spark.read.parquet(result.outputs[0].path)
            for condition in FILTERS:
                assert sorted(read.where(condition).select("id").collect()) == expected[condition], condition
    assert read_by_duckdb(result, "select count(*), sum(id), count(t), sum(k), count(s.b), count(tags) from t") == [
        tuple(
            lake_database.spark.sql(
                f"select count(*), sum(id), count(t), sum(k), count(s.b), count(tags) from {lake.sql_name}"
            ).collect()[0]
        )
    ]


def test_a_pass_over_small_row_groups_merges_them_and_iceberg_reads_what_it_read_before(
    lake_database: LakeDatabase,
) -> None:
    lake = Lake.make(
        lake_database,
        "id bigint, x double, kind string, t string",
        properties=", 'write.parquet.compression-codec' = 'zstd'",
    )
    for number in range(4):
        lake.run(
            "insert into {t} select id, if(id % 5000 = 0, double('NaN'), id / 3), element_at(array('a', 'b', 'c'),"
            f" cast((id + {number}) % 3 + 1 as int)), concat('text ', id) from range({number * 9000}, "
            f"{number * 9000 + 9000}, 1, 1)"
        )
    before = render_exact(lake.spark_rows())
    counts = (
        "select sum(element_at(nan_value_counts, 2)), sum(element_at(null_value_counts, 1)), sum(record_count), "
        "count(*)"
    )
    nans = lake_database.spark.sql(f"{counts} from {lake.sql_name}.files").collect()[0]
    outcome = lake.compact(splice_min_row_group_bytes=8 << 20)
    assert outcome.status == "done"
    [line] = [line for line in outcome.details if line.startswith("merged: ")]
    assert line.endswith("encoded again: kind")
    after = lake_database.spark.sql(f"{counts} from {lake.sql_name}.files").collect()[0]
    assert tuple(after) == (*tuple(nans)[:3], 1)
    assert render_exact(lake.spark_rows()) == before
    for vectorised in ("true", "false"):
        lake.run(f"alter table {{t}} set tblproperties ('read.parquet.vectorization.enabled' = '{vectorised}')")
        assert render_exact(lake.spark_rows()) == before
        assert [
            row.id
            for row in lake_database.spark.sql(
                f"select id from {lake.sql_name} where t = 'text 20001' and kind is not null"
            ).collect()
        ] == [20001]
    location = lake.head().metadata_location.replace("file:/", "file:///", 1)
    by_pyiceberg = (
        StaticTable.from_metadata(location)
        .scan(row_filter="id >= 26999 and id < 27002", selected_fields=("id", "t"))
        .to_arrow()
    )
    assert sorted(by_pyiceberg.column("id").to_pylist()) == [26999, 27000, 27001]
    again = lake.compact(splice_min_row_group_bytes=8 << 20)
    assert again.status != "done", "one file is left, so that nothing is to be done"


def test_a_chunk_of_plain_pages_and_pages_by_dictionary_is_read_by_iceberg_and_by_a_second_pass(
    lake_database: LakeDatabase,
) -> None:
    """The one mixture that a merge makes; large enough that a pass makes it by itself."""
    lake = Lake.make(lake_database, "id bigint, name string, x double, raw binary, n int")
    many = 9_009  # names begin anew with each file, so that dictionaries are the same
    dictionaries: tuple[list[str], ...] = (["name"], ["name"], [], [])
    for number, names in enumerate(dictionaries):
        table = make_rows(number * many, many).drop_columns(["ok"])
        lake.add_file(table, store_schema=False, compression="zstd", use_dictionary=names or False)
    before = render_exact(lake.spark_rows())
    merged = lake.compact(splice_min_row_group_bytes=1 << 40)
    assert merged.status == "done", merged
    assert any(note.startswith("merged") and "name" not in note for note in merged.details), merged.details
    assert render_exact(lake.spark_rows()) == before
    [output] = lake.seen().data
    lake.delete_rows({output.path: [0, 1]})
    left = lake.spark_rows()
    assert len(left) == many * len(dictionaries) - 2
    again = lake.compact()
    assert (again.status, lake.seen().deletes) == ("done", ()), again
    assert render_exact(lake.spark_rows()) == render_exact(left)


SPARKS = {
    name: {**how, "column_encoding": {c: e for c, e in how["column_encoding"].items() if e != "BYTE_STREAM_SPLIT"}}
    if "delta" in name
    else how
    for name, how in WRITERS.items()
}
"""Spark's vectorised reader takes no BYTE_STREAM_SPLIT."""


def test_every_mixture_of_two_writers_is_read_by_spark(
    lake_database: LakeDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_plan, "MIN_PAGE_VALUES", 0)
    monkeypatch.setattr(merge_plan, "LEAST_COPIED", 0.0)
    outputs = []
    for number, (first, second) in enumerate(combinations(SPARKS, 2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        lake = Bin(folder, schema=ICEBERG)
        for at, writer in enumerate((first, second, first)):
            lake.add(make_rows((3 * number + at) * ROWS_EACH, ROWS_EACH), **SPARKS[writer])
        outputs += [output.path for output in lake.run(splice_min_row_group_bytes=1 << 40).outputs]
    expected = render_exact([tuple(row.values()) for row in make_rows(0, 3 * ROWS_EACH * len(outputs)).to_pylist()])
    for vectorised in ("true", "false"):
        with settings(lake_database.spark, *("spark.sql.parquet." + name for name in READERS), to=vectorised):
            assert (
                render_exact([tuple(row) for row in lake_database.spark.read.parquet(*outputs).collect()]) == expected
            )
