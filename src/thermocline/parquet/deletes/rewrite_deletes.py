"""Rewrite deletes as position delete files: merge many small ones, and resolve equality deletes to positions.

The task's inputs are data files that do not change; its deletes are the ones that are rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from thermocline.parquet.byte_files import Pace, Register
from thermocline.parquet.decode.input_reader import InputReader, open_parquet, read_batches
from thermocline.parquet.decode.projection import find_field
from thermocline.parquet.deletes.deletion_vectors import DeletionVectorFile, write_vectors
from thermocline.parquet.deletes.equality_deletes import (
    KeyPlan,
    KeySet,
    key_columns,
    passes_for,
    plan_keys,
    read_key_set,
)
from thermocline.parquet.deletes.position_deletes import DeleteTarget, WrittenDeletes, write_deletes
from thermocline.parquet.deletes.read_deleted_rows import read_deleted_rows
from thermocline.parquet.deletes.row_map import Positions
from thermocline.parquet.rewrite_task import BinTask
from thermocline.parquet.values.lake_schema import read_lake_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesResult:
    """The position delete files that replace the task's deletes."""

    number: int
    files: tuple[WrittenDeletes, ...] = ()
    vectors: DeletionVectorFile | None = None
    """Deletion vectors, which replace delete files from format version 3 on."""

    @property
    def count(self) -> int:
        return len(self.files) + (len(self.vectors.vectors) if self.vectors is not None else 0)


def rewrite_deletes(
    task: BinTask, register: Register, pace: Pace, *, files_at_most: Mapping[int, int], as_vectors: bool = False
) -> DeletesResult:
    """Write one file per data file where those are few, else one for all; none when nothing is deleted."""
    positions = _find_deleted_positions(task, pace)
    named = {file.path: rows for file, rows in zip(task.inputs, positions, strict=True) if len(rows)}
    if as_vectors:
        path = f"{task.directory.rstrip('/')}/data/{task.name_prefix}-deletes.puffin"
        vectors = write_vectors(path, named, register) if named else None
        pace(0, vectors.size_bytes if vectors is not None else 0)
        return DeletesResult(number=task.number, vectors=vectors)
    parts = [{path: rows} for path, rows in named.items()] if len(named) <= files_at_most[task.number] else [named]
    made = []
    for number, part in enumerate(parts):
        target = DeleteTarget(
            directory=task.directory, stem=f"{task.name_prefix}-{number}", compression_level=task.compression_level
        )
        made.append(write_deletes(target, None, part, register))
        pace(0, made[-1].size_bytes)
    return DeletesResult(number=task.number, files=tuple(made))


def _find_deleted_positions(task: BinTask, pace: Pace) -> list[Positions]:
    """For each input, the positions of deleted rows."""
    found = [[positions] for positions in read_deleted_rows(task, pace)]
    lake = read_lake_schema(task.schema_json)
    plans = plan_keys(task, lake)
    reader = InputReader(
        task=task, lake=lake, pace=pace, also=tuple(sorted({number for plan in plans for number in plan.ids}))
    )
    parts = passes_for(task, plans)
    for plan in plans:
        for part in range(parts):
            keys = read_key_set(task, plan, part, parts, pace)
            for number in plan.level_of_input:
                found[number].extend(_hits(task, reader, plan, keys, number, pace))
    return [np.unique(np.concatenate(positions)) for positions in found]


def _hits(
    task: BinTask, reader: InputReader, plan: KeyPlan, keys: KeySet, number: int, pace: Pace
) -> Iterator[Positions]:
    """The positions of one input whose keys are deleted; only the key columns are read."""
    path, first_row = task.inputs[number].path, 0
    with open_parquet(path) as opened:
        schema = reader.projection_of(opened, path).file_schema
        field_paths = [field_path for field_id in plan.ids if (field_path := find_field(schema, field_id))]
        names = sorted({schema.field(field_path[0]).name for field_path in field_paths}) or [schema.field(0).name]
        for batch in read_batches(opened, path, names, 1.0, pace):
            gone = keys.deleted(number, key_columns(plan, schema, batch, reader.lake, task.partition_values or {}))
            if gone is not None:
                yield np.flatnonzero(gone) + first_row
            first_row += batch.num_rows
