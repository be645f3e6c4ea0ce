"""What the kernels write, read by Spark and DuckDB; what Spark says of deletes, said by the kernels too."""

from __future__ import annotations

import json
import math
import struct
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.ground import Ground
from tests.spark.lake import Lake

from thermocline.parquet.rewrite_task import BinResult, BinTask, DeleteSource, InputFile, Kernel, SortField
from thermocline.spark.kernels.compact_bin import run_bin


def rewrite(lake: Lake, out: Path, kernel: Kernel, **changes: Any) -> BinResult:
    """All files of the table as one bin, with the deletes that apply; nothing is committed."""
    files = lake.spark.sql(f"select * from {lake.sql_name}.entries where status < 2").collect()
    data = [entry for entry in files if entry.data_file.content == 0]
    gone = [entry for entry in files if entry.data_file.content > 0]
    sources = []
    for entry in gone:
        file = entry.data_file
        kind: Literal["position", "equality", "vector"] = "equality"
        if file.content == 1:
            kind = "vector" if file.file_format == "PUFFIN" else "position"
        sources.append(
            DeleteSource(
                path=file.file_path,
                kind=kind,
                size_bytes=file.file_size_in_bytes,
                sequence_number=entry.sequence_number,
                equality_ids=tuple(file.equality_ids or ()),
                referenced_file=file.referenced_data_file,
                offset=file.content_offset or 0,
                length=file.content_size_in_bytes or 0,
            )
        )
    inputs = tuple(
        InputFile(
            path=entry.data_file.file_path,
            size_bytes=entry.data_file.file_size_in_bytes,
            record_count=entry.data_file.record_count,
            sequence_number=entry.sequence_number,
            deletes=tuple(n for n, s in enumerate(sources) if s.sequence_number > entry.sequence_number),
        )
        for entry in sorted(data, key=lambda entry: (entry.sequence_number, entry.data_file.file_path))
    )
    head: Any = lake.head()
    task = BinTask(
        number=0,
        kernel=kernel,
        inputs=inputs,
        deletes=tuple(sources),
        directory=f"file://{out}",
        name_prefix="out",
        target_bytes=1 << 30,
        schema_json=lake.spark._jvm.org.apache.iceberg.SchemaParser.toJson(head.table.schema()),  # type: ignore[union-attr]
        **changes,
    )
    return run_bin(task, lambda _: None, lambda _, __: None)


def by_spark(lake: Lake, result: BinResult, where: str = "true") -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in lake.spark.read.parquet(*(output.path for output in result.outputs)).where(where).collect()
    ]


def told(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as texts that tell -0.0 from 0.0 and know one NaN."""
    plain = [
        [struct.pack("d", v).hex() if isinstance(v, float) and not math.isnan(v) else v for v in row] for row in rows
    ]
    return sorted(json.dumps(row, default=str) for row in plain)


def test_files_of_sparks_writer_are_spliced_with_their_page_indexes_and_bloom_filters(
    ground: Ground, tmp_path: Path
) -> None:
    bloom = ", 'write.parquet.bloom-filter-enabled.column.id' = 'true', 'write.parquet.page-row-limit' = '500'"
    lake = Lake.make(ground, "id bigint, name string, tags array<string>", properties=bloom)
    for first in range(0, 9000, 3000):
        lake.append([(2 * i, f"name {i}", ["a", None, f"t{i % 3}"]) for i in range(first, first + 3000)])
    result = rewrite(lake, tmp_path, "splice")
    assert (result.kernel, len(result.outputs), result.rows_written) == ("splice", 1, 9000)
    [output] = result.outputs
    assert told(by_spark(lake, result)) == told(lake.spark_rows())
    assert by_spark(lake, result, "id = 12344 or id between 17000 and 17004") == [
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


def test_deletes_of_a_version_3_table_leave_what_spark_reads(ground: Ground, tmp_path: Path) -> None:
    modes = ", 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"
    lake = Lake.make(ground, "id bigint, name string", properties=modes)
    lake.run("alter table {t} set tblproperties ('format-version' = '3')")
    for first in (0, 1000):
        lake.append([(i, f"name {i}") for i in range(first, first + 1000)])
    lake.run("delete from {t} where id % 7 = 3")
    assert (
        ground.spark.sql(f"select distinct file_format from {lake.sql_name}.delete_files").collect()[0][0] == "PUFFIN"
    )
    result = rewrite(lake, tmp_path, "reencode")
    assert told(by_spark(lake, result)) == told(lake.spark_rows())


def test_equality_deletes_of_nulls_nan_and_minus_nought_leave_what_spark_reads(ground: Ground, tmp_path: Path) -> None:
    lake = Lake.make(ground, "k int, x double, note string")
    values = [None, 0.0, -0.0, math.nan, 1.5]
    lake.append([(k, x, f"{k} {x}") for k in (None, 1, 2) for x in values])
    lake.delete_equal(
        {"k": pa.int32(), "x": pa.float64()}, [(None, None), (None, -0.0), (1, 0.0), (1, math.nan), (2, None)]
    )
    lake.append([(1, 0.0, "again")])
    lake.delete_equal({"x": pa.float64()}, [(1.5,)])
    lake.delete_equal({"note": pa.string()}, [("2 0.0",), (None,)])
    result = rewrite(lake, tmp_path, "reencode")
    assert told(by_spark(lake, result)) == told(lake.spark_rows())
    assert len(lake.spark_rows()) == 7


def test_rewritten_files_with_every_type_are_read_by_spark(ground: Ground, tmp_path: Path) -> None:
    lake = Lake.make(
        ground,
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
        result = rewrite(lake, tmp_path / kernel, kernel, sort=() if kernel == "reencode" else order)
        assert told(by_spark(lake, result)) == told(lake.spark_rows())
        if kernel == "sort":
            assert [found[0] for found in by_spark(lake, result)] == [1, 2, 3]
