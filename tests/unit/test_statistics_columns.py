"""Which columns get statistics in a footer: uuids and floats do not, for readers disagree about their order, and about
NaN."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.parquet.encode.lake_writer import statistics_columns


def test_floats_have_no_statistics_at_any_depth() -> None:
    """Arrow leaves NaN out of them, and to Spark and DuckDB it is the largest number."""
    schema = pa.schema(
        [("id", pa.int64()), ("x", pa.float64()), ("pair", pa.struct([("a", pa.float32()), ("b", pa.string())]))]
    )
    assert statistics_columns(schema) == ["id", "pair.b"]


def test_uuids_have_no_statistics_at_any_depth_and_everything_else_has() -> None:
    """By those of a row group Spark would miss `80000000-…` between `00000000-…` and `ffffffff-…`: to Java the first is
    the lowest."""
    pair = pa.struct([("a", pa.uuid()), ("b", pa.string())])
    schema = pa.schema(
        [("id", pa.int64()), ("u", pa.uuid()), ("pair", pair), ("list", pa.list_(pa.field("element", pa.uuid())))]
    )
    assert statistics_columns(schema) == ["id", "pair.b"]
    assert statistics_columns(pa.schema([("id", pa.int64()), ("raw", pa.binary(16))])) is True
    sink = pa.BufferOutputStream()
    uuids = pa.array([bytes(16), b"\x80" + bytes(15), b"\xff" * 16], pa.binary(16))
    table = pa.table(
        [pa.array([1, 2, 3]), pa.ExtensionArray.from_storage(pa.uuid(), uuids)], schema=pa.schema(list(schema)[:2])
    )
    with pq.ParquetWriter(
        sink, table.schema, write_statistics=statistics_columns(table.schema), write_page_index=True
    ) as writer:
        writer.write_table(table)
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    assert [group.column(at).is_stats_set for at in range(2)] == [True, False]
