"""Sort a bin by columns, z-order or Hilbert curve, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from thermocline.errors import RewriteUnsupported
from thermocline.parquet.byte_files import Pace, Register
from thermocline.parquet.decode.input_reader import InputReader
from thermocline.parquet.decode.live_rows import RowFilter, read_live_batches
from thermocline.parquet.decode.prefetch import prefetch
from thermocline.parquet.decode.projection import FieldPath, find_field, value_at
from thermocline.parquet.decode.row_lineage import output_schema_json
from thermocline.parquet.deletes.equality_deletes import plan_keys
from thermocline.parquet.encode.output_writer import OutputWriter
from thermocline.parquet.encode.reencode import bin_result, open_reader, output_schema
from thermocline.parquet.rewrite_task import BinResult, BinTask
from thermocline.parquet.sort.external_sort import KeyColumns
from thermocline.parquet.sort.key_ranges import plan_ranges
from thermocline.parquet.sort.key_sample import SortColumn, read_sample
from thermocline.parquet.sort.range_sort import RangeSort, ranges_for
from thermocline.parquet.sort.row_order import Direction
from thermocline.parquet.sort.space_filling_curves import ColumnRanks, bits_for, column_ranks, hilbert, z_order
from thermocline.parquet.values.lake_schema import LakeSchema, LakeSchemaField
from thermocline.parquet.values.transforms import apply_transform

_AHEAD_SHARE = 0.08
_BATCH_BYTES = (64 << 10, 4 << 20)
_EXTRA = "__thermocline_key_{}"
Extra = Callable[[pa.RecordBatch], list[pa.Array]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordering:
    """What rows are sorted by: their columns, and computed columns that no output keeps."""

    keys: KeyColumns
    extra: Extra | None = None

    def extended(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.extra is None:
            return batch
        for number, array in enumerate(self.extra(batch)):
            batch = batch.append_column(_EXTRA.format(number), array)
        return batch

    def key_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        extended = self.extended(batch)
        return [extended.column(name) for name in self.keys.names]


def sort_bin(task: BinTask, register: Register, pace: Pace) -> BinResult:
    """Write the outputs of a bin in the task's order; the key ranges of outputs do not overlap."""
    if not task.sort:
        raise RewriteUnsupported("sort rewrite requires a table sort order")
    lake = output_schema_json(task)
    plans = plan_keys(task, lake)
    reader = open_reader(task, lake, plans, pace)
    ordering, sorter = _open_sorter(task, lake, reader, pace)
    rows = RowFilter(task, plans, reader, pace)
    schema = output_schema(lake, reader.dictionaries)
    writer = OutputWriter(task, lake, schema, reader.repeating, register, pace)
    rows_read, ahead_bytes = 0, int(task.memory_bytes * _AHEAD_SHARE)
    try:
        with closing(
            prefetch(read_live_batches(task, reader, rows), lambda kept: kept.batch.nbytes, ahead_bytes)
        ) as found:
            for kept in found:
                rows_read += kept.rows_read
                sorter.add(ordering.extended(kept.batch))
        del rows
        with closing(prefetch(sorter.sorted_batches(), lambda batch: batch.nbytes, ahead_bytes)) as ordered:
            for batch in ordered:
                writer.add(batch.select(schema.names))
        outputs = writer.close()
    except BaseException:
        writer.abandon()
        raise
    finally:
        sorter.close()
    return bin_result(task, task.kernel, outputs, rows_read, note=f"{sorter.runs} runs on disk" if sorter.runs else "")


def _open_sorter(task: BinTask, lake: LakeSchema, reader: InputReader, pace: Pace) -> tuple[Ordering, RangeSort]:
    """The ordering, and a sorter that knows the distribution of keys from a sample."""
    field_paths = [_field_path(lake, wanted.field_id) for wanted in task.sort]
    count = ranges_for(int(sum(file.record_count for file in task.inputs) * reader.row_bytes), task.memory_bytes)
    if task.kernel == "sort":
        ordering = plan_sort(task, lake)
        sample = read_sample(task, field_paths, reader, pace, 2 * count) if count > 1 else []
    else:
        sample = read_sample(task, field_paths, reader, pace)
        ordering = _plan_curve(task, field_paths, sample)
    keys = ordering.keys
    ranges = plan_ranges([ordering.key_columns(batch) for batch in sample], keys.directions, count)
    # Outputs are cut between batches, so small outputs need small batches.
    batch_bytes = max(_BATCH_BYTES[0], min(_BATCH_BYTES[1], task.target_bytes // 4))
    return ordering, RangeSort(
        keys=keys, ranges=ranges, memory_bytes=task.memory_bytes, scratch=task.scratch, batch_bytes=batch_bytes
    )


def _field_path(lake: LakeSchema, field_id: int) -> SortColumn:
    field, field_path = lake.find(field_id), find_field(lake.arrow(), field_id)
    if field is None or not field_path:
        raise RewriteUnsupported(
            f"The rewrite cannot sort by field {field_id}: it is not a column of the table, nor in a struct of it."
        )
    if field.children:
        raise RewriteUnsupported(f"The rewrite cannot sort by {field.name}: it is {field.kind}.")
    return field, field_path


def plan_sort(task: BinTask, lake: LakeSchema) -> Ordering:
    """The task's sort order over rows of the table's schema."""
    names: list[str] = []
    made: list[tuple[FieldPath, str]] = []
    for wanted in task.sort:
        field, field_path = _field_path(lake, wanted.field_id)
        if wanted.transform == "identity" and len(field_path) == 1:
            names.append(field.name)
        else:
            names.append(_EXTRA.format(len(made)))
            made.append((field_path, wanted.transform))
    directions = tuple(Direction(descending=wanted.descending, nulls_first=wanted.nulls_first) for wanted in task.sort)

    def extra(batch: pa.RecordBatch) -> list[pa.Array]:
        return [
            apply_transform(value_at(batch.column(field_path[0]), field_path[1:]), transform)
            for field_path, transform in made
        ]

    return Ordering(keys=KeyColumns(names=tuple(names), directions=directions), extra=extra if made else None)


def _plan_curve(task: BinTask, field_paths: Sequence[SortColumn], sample: Sequence[pa.RecordBatch]) -> Ordering:
    ranks = [
        _ranks(field, [value_at(batch.column(field_path[0]), field_path[1:]) for batch in sample])
        for field, field_path in field_paths
    ]
    bits = bits_for(len(field_paths))
    curve = hilbert if task.kernel == "hilbert" and len(field_paths) > 1 else z_order

    def extra(batch: pa.RecordBatch) -> list[pa.Array]:
        columns = [value_at(batch.column(field_path[0]), field_path[1:]) for _, field_path in field_paths]
        return [
            pa.array(words)
            for words in curve([one.ranks(column, bits) for one, column in zip(ranks, columns, strict=True)], bits)
        ]

    words = 1 if len(field_paths) * bits <= 64 else 2
    keys = KeyColumns(names=tuple(_EXTRA.format(number) for number in range(words)), directions=(Direction(),) * words)
    return Ordering(keys=keys, extra=extra)


def _ranks(field: LakeSchemaField, parts: Sequence[pa.Array]) -> ColumnRanks:
    return column_ranks(pa.chunked_array([pa.nulls(0, field.kind), *parts]))
