"""What the kernels write, read by Spark and DuckDB; what Spark says of deletes, said by the kernels too."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.lake_database import LakeDatabase
from tests.spark.lake_table import Lake
from tests.spark.rewrite_bin import read_by_spark, render_exact, rewrite_bin

from thermocline.parquet.rewrite_task import Kernel, SortField


def test_files_of_sparks_writer_are_spliced_with_their_page_indexes_and_bloom_filters(
    lake_database: LakeDatabase, tmp_path: Path
) -> None:
    bloom = ", 'write.parquet.bloom-filter-enabled.column.id' = 'true', 'write.parquet.page-row-limit' = '500'"
    lake = Lake.make(lake_database, "id bigint, name string, tags array<string>", properties=bloom)
    for first in range(0, 9000, 3000):
        lake.append([(2 * i, f"name {i}", ["a", None, f"t{i % 3}"]) for i in range(first, first + 3000)])
    result = rewrite_bin(lake, tmp_path, "splice")
    assert (result.kernel, len(result.outputs), result.rows_written) == ("splice", 1, 9000)
    [output] = result.outputs
    assert render_exact(read_by_spark(lake, result)) == render_exact(lake.spark_rows())
    assert read_by_spark(lake, result, "id = 12344 or id between 17000 and 17004") == [
        (2 * i, f"name {i}", ["a", None, f"t{i % 3}"]) for i in (6172, 8500, 8501, 8502)
    ]
    path = output.path.removeprefix("file://")
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    assert column.has_column_index
    with closing(duckdb.connect()) as conn:
        probed = conn.execute(
            "select bloom_filter_excludes from parquet_bloom_probe(?, 'id', 12344)", [path]
        ).fetchall()
        assert [excluded for (excluded,) in probed] == [True, True, False]
        assert conn.execute("select count(*), sum(id) from read_parquet(?)", [path]).fetchone() == (9000, 9000 * 8999)


def test_deletes_of_a_version_3_table_leave_what_spark_reads(lake_database: LakeDatabase, tmp_path: Path) -> None:
    modes = ", 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
    lake = Lake.make(lake_database, "id bigint, name string", properties=modes)
    lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    for first in (0, 1000):
        lake.append([(i, f"name {i}") for i in range(first, first + 1000)])
    lake.run("delete from {t} where id % 7 = 3")
    assert (
        lake_database.spark.sql(f"select distinct file_format from {lake.sql_name}.delete_files").collect()[0][0]
        == "PUFFIN"
    )
    result = rewrite_bin(lake, tmp_path, "reencode")
    assert render_exact(read_by_spark(lake, result)) == render_exact(lake.spark_rows())


def test_equality_deletes_of_nulls_nan_and_minus_nought_leave_what_spark_reads(
    lake_database: LakeDatabase, tmp_path: Path
) -> None:
    lake = Lake.make(lake_database, "k int, x double, note string")
    values = [None, 0.0, -0.0, math.nan, 1.5]
    lake.append([(k, x, f"{k} {x}") for k in (None, 1, 2) for x in values])
    lake.delete_equal(
        {"k": pa.int32(), "x": pa.float64()}, [(None, None), (None, -0.0), (1, 0.0), (1, math.nan), (2, None)]
    )
    lake.append([(1, 0.0, "again")])
    lake.delete_equal({"x": pa.float64()}, [(1.5,)])
    lake.delete_equal({"note": pa.string()}, [("2 0.0",), (None,)])
    result = rewrite_bin(lake, tmp_path, "reencode")
    assert render_exact(read_by_spark(lake, result)) == render_exact(lake.spark_rows())
    assert len(lake.spark_rows()) == 7


def test_rewritten_files_with_every_type_are_read_by_spark(lake_database: LakeDatabase, tmp_path: Path) -> None:
    lake = Lake.make(
        lake_database,
        "id int, b boolean, f float, d double, m decimal(9,2), w decimal(38,3), day date, at timestamp, "
        "local timestamp_ntz, t string,"
        " raw binary, s struct<a: int, l: array<struct<x: string>>>, kv map<string, array<int>>",
    )
    row = (
        "({n}, true, 1.5f, 2.5, 1.25, 123456789012345678901234567890.125, date'2026-11-16', "
        "timestamp'2026-11-16 01:02:03.000004Z',"
        " timestamp_ntz'1969-12-31 23:59:59.999999', 'ü', x'00ff', named_struct('a', 1, 'l', "
        "array(named_struct('x', 'y'), null)),"
        " map('k', array(1, null)))"
    )
    for n in (3, 1):
        lake.run("insert into {t} values " + row.format(n=n))
    lake.run("insert into {t} values (2" + ", null" * 12 + ")")
    order = (SortField(field_id=1), SortField(field_id=7))
    kernels: tuple[Kernel, ...] = ("reencode", "sort", "zorder")
    for kernel in kernels:
        result = rewrite_bin(lake, tmp_path / kernel, kernel, sort=() if kernel == "reencode" else order)
        assert render_exact(read_by_spark(lake, result)) == render_exact(lake.spark_rows())
        if kernel == "sort":
            assert [found[0] for found in read_by_spark(lake, result)] == [1, 2, 3]
