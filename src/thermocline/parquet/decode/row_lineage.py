"""Row lineage of format version 3: each row's id, and the sequence number of the commit that last changed it.

A row that was written once has neither in its file: its id is the file's first row id plus its position, its sequence
number the file's. A row that is rewritten to another file carries both as columns, so a rewrite changes neither. Files
from before the table had row ids have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.errors import RewriteUnsupported
from thermocline.parquet.decode.input_reader import open_parquet
from thermocline.parquet.decode.projection import field_id_of
from thermocline.parquet.rewrite_task import BinTask, InputFile
from thermocline.parquet.values.lake_schema import LakeSchema, LakeSchemaField, read_lake_schema

ROW_ID = LakeSchemaField(field_id=2_147_483_540, name="_row_id", kind=pa.int64(), required=False)
LAST_UPDATED = LakeSchemaField(
    field_id=2_147_483_539, name="_last_updated_sequence_number", kind=pa.int64(), required=False
)
_IDS = (ROW_ID.field_id, LAST_UPDATED.field_id)


def output_schema_json(task: BinTask) -> LakeSchema:
    """The schema of the task's outputs: the table's, with the lineage columns where lineage is kept."""
    lake = read_lake_schema(task.schema_json)
    if not task.keep_lineage:
        return lake
    if taken := {ROW_ID.name, LAST_UPDATED.name} & {field.name for field in lake.fields}:
        raise RewriteUnsupported(f"Column {min(taken)} has the name of a column that says where rows come from.")
    return replace(lake, fields=(*lake.fields, ROW_ID, LAST_UPDATED))


def carries_lineage(files: Sequence[InputFile]) -> bool:
    """Whether every row of these files stores its id and sequence number, so that it may be copied byte for byte."""
    return all(_is_complete(file.path) for file in files)


def _is_complete(path: str) -> bool:
    with open_parquet(path) as opened:
        names = {field.name for field in opened.schema_arrow if field_id_of(field) in _IDS}
        metadata = opened.metadata
        columns = [at for at in range(metadata.num_columns) if metadata.schema.column(at).path in names]
        chunks = [metadata.row_group(group).column(at) for group in range(metadata.num_row_groups) for at in columns]
    statistics = [chunk.statistics for chunk in chunks]
    return len(columns) == len(_IDS) and all(
        found is not None and found.has_null_count and found.null_count == 0 for found in statistics
    )


def with_lineage(batch: pa.RecordBatch, file: InputFile, first_row: int) -> pa.RecordBatch:
    """Rows of an input from position `first_row` on, with lineage filled in from their file where the row stores
    none."""
    if file.first_row_id is None:
        unknown = pa.nulls(batch.num_rows, pa.int64())
        return _put(_put(batch, ROW_ID, unknown), LAST_UPDATED, unknown)
    begin = file.first_row_id + first_row
    ids, numbers = batch.column(ROW_ID.name), batch.column(LAST_UPDATED.name)
    if ids.null_count:
        ids = pc.coalesce(ids, pa.array(np.arange(begin, begin + batch.num_rows, dtype=np.int64)))
    if numbers.null_count:
        numbers = pc.fill_null(numbers, file.sequence_number)
    return _put(_put(batch, ROW_ID, ids), LAST_UPDATED, numbers)


def _put(batch: pa.RecordBatch, field: LakeSchemaField, array: pa.Array) -> pa.RecordBatch:
    index = batch.schema.get_field_index(field.name)
    return batch.set_column(index, batch.schema.field(index), array)
