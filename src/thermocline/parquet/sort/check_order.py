"""Check that files written by another program are sorted as requested; only then may the table record the sort
order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from thermocline.errors.maintenance import OutsideThePlan
from thermocline.parquet.byte_files import Pace
from thermocline.parquet.decode.input_reader import InputReader
from thermocline.parquet.rewrite_task import BinTask, InputFile, OutputFile
from thermocline.parquet.sort.external_sort import combine_chunks
from thermocline.parquet.sort.sort_bin import plan_sort
from thermocline.parquet.values.lake_schema import read_lake_schema


def check_row_order(task: BinTask, outputs: Sequence[OutputFile], pace: Pace) -> None:
    """Refuse outputs whose rows, one file after the other, are not in the task's order."""
    lake = read_lake_schema(task.schema_json)
    ordering, reader = plan_sort(task, lake), InputReader(task=task, lake=lake, pace=pace)
    last: list[pa.Table] = []
    for output in outputs:
        file = InputFile(path=output.path, size_bytes=output.size_bytes, record_count=output.rows, sequence_number=0)
        for projection, batch in reader.read(file):
            extended = ordering.extended(projection.apply(batch, frozenset()))
            keys = pa.Table.from_batches([extended]).select(ordering.keys.names)
            if ordering.keys.order(combine_chunks(pa.concat_tables([*last, keys]))) is not None:
                raise OutsideThePlan(
                    f"The rows of {output.path} are not in the requested order; nothing was committed."
                )
            last = [keys.slice(keys.num_rows - 1)]
