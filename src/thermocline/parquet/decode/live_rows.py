"""Read the live rows of a bin: its inputs one after the other, without deleted rows."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from thermocline.parquet.byte_files import Pace
from thermocline.parquet.decode.input_reader import InputReader, open_parquet, read_batches
from thermocline.parquet.decode.projection import Projection, find_field
from thermocline.parquet.decode.row_lineage import with_lineage
from thermocline.parquet.deletes.equality_deletes import KeyPlan, KeySet, key_columns, passes_for, read_key_set
from thermocline.parquet.deletes.read_deleted_rows import read_deleted_rows
from thermocline.parquet.deletes.row_map import Positions
from thermocline.parquet.rewrite_task import BinTask
from thermocline.parquet.values.key_words import Mask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveBatch:
    """Live rows of one batch in the table's schema; `removed` are the input positions of its deleted rows."""

    number: int
    rows_read: int
    batch: pa.RecordBatch
    removed: Positions


class RowFilter:
    """All deletes of a bin, ready to be applied."""

    def __init__(self, task: BinTask, plans: Sequence[KeyPlan], reader: InputReader, pace: Pace) -> None:
        self._task = task
        self._reader = reader
        self._plans = plans
        self._sets: list[tuple[KeyPlan, KeySet]] = []
        self._positions = read_deleted_rows(task, pace)
        parts = passes_for(task, self._plans)
        if parts == 1:
            self._sets = [(plan, read_key_set(task, plan, 0, 1, pace)) for plan in self._plans]
        else:
            self._find_positions(parts, pace)

    def deleted(self, number: int, first_row: int, projection: Projection, batch: pa.RecordBatch) -> Mask | None:
        """Which rows of a batch are deleted; None when none are."""
        gone = np.zeros(batch.num_rows, dtype=np.bool_)
        positions = self._positions[number]
        begin, end = np.searchsorted(positions, (first_row, first_row + batch.num_rows))
        gone[positions[begin:end] - first_row] = True
        for plan, keys in self._sets:
            if number in plan.level_of_input:
                found = keys.deleted(number, self._keys(plan, projection.file_schema, batch))
                gone |= False if found is None else found
        return gone if bool(gone.any()) else None

    def _keys(self, plan: KeyPlan, schema: pa.Schema, batch: pa.RecordBatch) -> list[pa.Array]:
        return key_columns(plan, schema, batch, self._reader.lake, self._task.partition_values or {})

    def _find_positions(self, parts: int, pace: Pace) -> None:
        """Apply keys that exceed the memory part by part, reading only the key columns; keep the matches as
        positions."""
        found: list[list[Positions]] = [[positions] for positions in self._positions]
        for plan in self._plans:
            for part in range(parts):
                keys = read_key_set(self._task, plan, part, parts, pace)
                for number in plan.level_of_input:
                    found[number].extend(self._hits(plan, keys, number, pace))
        self._positions = [np.unique(np.concatenate(positions)) for positions in found]

    def _hits(self, plan: KeyPlan, keys: KeySet, number: int, pace: Pace) -> Iterator[Positions]:
        path, first_row = self._task.inputs[number].path, 0
        with open_parquet(path) as opened:
            schema = self._reader.projection_of(opened, path).file_schema
            field_paths = [field_path for field_id in plan.ids if (field_path := find_field(schema, field_id))]
            names = sorted({schema.field(field_path[0]).name for field_path in field_paths}) or [schema.field(0).name]
            for batch in read_batches(opened, path, names, 1.0, pace):
                gone = keys.deleted(number, self._keys(plan, schema, batch))
                if gone is not None:
                    yield np.flatnonzero(gone) + first_row
                first_row += batch.num_rows


def read_live_batches(task: BinTask, reader: InputReader, rows: RowFilter) -> Generator[LiveBatch, None, None]:
    """The live rows of every input, in order."""
    for number, file in enumerate(task.inputs):
        first_row = 0
        for projection, batch in reader.read(file):
            gone = rows.deleted(number, first_row, projection, batch) if file.deletes else None
            removed = np.zeros(0, dtype=np.int64) if gone is None else np.flatnonzero(gone) + first_row
            projected = projection.apply(batch, reader.dictionaries)
            if task.keep_lineage:
                projected = with_lineage(projected, file, first_row)
            if gone is not None:
                projected = projected.filter(pa.array(~gone))
            yield LiveBatch(number=number, rows_read=batch.num_rows, batch=projected, removed=removed)
            first_row += batch.num_rows
