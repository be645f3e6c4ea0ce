"""Re-encode: decode rows, apply deletes, project them to the table's schema, and encode them in the same order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thermocline.parquet.byte_files import Pace, Register
from thermocline.parquet.decode.input_reader import InputReader
from thermocline.parquet.decode.live_rows import LiveBatch, RowFilter, read_live_batches
from thermocline.parquet.decode.prefetch import prefetch
from thermocline.parquet.decode.row_lineage import ROW_ID, output_schema_json
from thermocline.parquet.deletes.equality_deletes import KeyPlan, plan_keys
from thermocline.parquet.deletes.row_map import Positions, pack_positions
from thermocline.parquet.encode.memory_pool import select_memory_pool
from thermocline.parquet.encode.output_writer import OutputWriter, choose_dictionary_columns
from thermocline.parquet.rewrite_task import BinResult, BinTask, InputFile, Kernel, OutputFile, RowMap
from thermocline.parquet.values.lake_schema import LakeSchema

_SAMPLE_ROWS, _SAMPLE_FILES = 20_000, 4
_AHEAD_BYTES, _AHEAD_OF_KEYS_BYTES = 64 << 20, 32 << 20
"""The limit of decoded rows in the prefetch queue: while a row group is encoded on one core, the next is decoded on
another. Lower where keys of equality deletes take their share of the memory."""


def reencode(task: BinTask, register: Register, pace: Pace, note: str = "") -> BinResult:
    """Write the outputs of a bin, rows in the order of the inputs."""
    lake = output_schema_json(task)
    plans = plan_keys(task, lake)
    reader = open_reader(task, lake, plans, pace)
    rows = RowFilter(task, plans, reader, pace)
    pa.default_memory_pool().release_unused()
    writer = OutputWriter(task, lake, output_schema(lake, reader.dictionaries), reader.repeating, register, pace)
    moves = [_RowMapBuilder(file) for file in task.inputs]
    rows_read = 0
    try:
        ahead_bytes = _AHEAD_OF_KEYS_BYTES if plans else _AHEAD_BYTES
        for kept in prefetch(read_live_batches(task, reader, rows), lambda kept: kept.batch.nbytes, ahead_bytes):
            moves[kept.number].add(kept, *writer.add(kept.batch))
            rows_read += kept.rows_read
        outputs = writer.close()
    except BaseException:
        writer.abandon()
        raise
    maps = tuple(row_map for move in moves for row_map in move.row_maps())
    return bin_result(task, "reencode", outputs, rows_read, maps, note)


def open_reader(task: BinTask, lake: LakeSchema, plans: Sequence[KeyPlan], pace: Pace) -> InputReader:
    """A reader that knows from a sample which columns repeat and how wide a row is."""
    select_memory_pool(holds_delete_keys=bool(plans))
    reader = InputReader(
        task=task, lake=lake, pace=pace, also=tuple(sorted({number for plan in plans for number in plan.ids}))
    )
    sample = _sample(task, reader)
    if sample is not None and sample.num_rows:
        reader.row_bytes = max(1.0, sample.nbytes / sample.num_rows)
        reader.repeating = choose_dictionary_columns(sample) - {ROW_ID.name}
        reader.dictionaries = frozenset(
            name for name in reader.repeating if pa.types.is_string(sample.schema.field(name).type)
        )
    return reader


def _sample(task: BinTask, reader: InputReader) -> pa.Table | None:
    """The first rows of some inputs, evenly spaced over the bin: a column may be constant in the oldest files and
    unique in newer ones."""
    last = len(task.inputs) - 1
    files = sorted({last * number // (_SAMPLE_FILES - 1) for number in range(_SAMPLE_FILES)})
    found = [reader.read_first(task.inputs[number], _SAMPLE_ROWS // len(files)) for number in files]
    batches = [batch for batch in found if batch is not None and batch.num_rows]
    return pa.Table.from_batches(batches) if batches else None


def output_schema(lake: LakeSchema, dictionaries: frozenset[str]) -> pa.Schema:
    """The outputs' schema, with dictionary types in memory for the columns that stay dictionary arrays; the file has
    the table's types."""
    kind = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(kind) if field.name in dictionaries else field for field in lake.arrow()])


def bin_result(
    task: BinTask,
    kernel: Kernel,
    outputs: Sequence[OutputFile],
    rows_read: int,
    maps: tuple[RowMap, ...] = (),
    note: str = "",
) -> BinResult:
    used = {delete for file in task.inputs for delete in file.deletes}
    return BinResult(
        number=task.number,
        kernel=kernel,
        outputs=tuple(outputs),
        rows_read=rows_read,
        rows_written=sum(output.rows for output in outputs),
        bytes_read=sum(file.size_bytes for file in task.inputs)
        + sum(task.deletes[delete].size_bytes for delete in used),
        bytes_written=sum(output.size_bytes for output in outputs),
        row_maps=maps,
        note=note,
    )


class _RowMapBuilder:
    """Records where the rows of one input go, batch by batch."""

    def __init__(self, file: InputFile) -> None:
        self._path = file.path
        self._runs: list[tuple[int, int, int]] = []
        self._removed: list[Positions] = [np.zeros(0, dtype=np.int64)]

    def add(self, kept: LiveBatch, output: int, first_row: int) -> None:
        self._removed.append(kept.removed)
        rows = kept.batch.num_rows
        if not rows:
            return
        if self._runs and self._runs[-1][0] == output:
            output, first_row, before = self._runs.pop()
            rows += before
        self._runs.append((output, first_row, rows))

    def row_maps(self) -> list[RowMap]:
        removed, kept, found = pack_positions(np.concatenate(self._removed)), 0, []
        for output, first_row, rows in self._runs:
            found.append(
                RowMap(
                    input_path=self._path,
                    output=output,
                    first_row=first_row,
                    rows=rows,
                    first_kept=kept,
                    removed=removed,
                )
            )
            kept += rows
        return found
