"""Simulate a disk that returns wrong data: damage lake files after the writer closed them, before it reads them back.

The functions run in Spark's Python workers, around the real kernels; they are pickled by value, because a worker does
not know the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def lose_a_row(table: pa.Table) -> pa.Table:
    return table.slice(1)


def double_a_row(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table.slice(0, 1)])


def replace_a_row_by_its_neighbour(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(1, 1), table.slice(1)])


def change_a_number(table: pa.Table) -> pa.Table:
    return _with(table, "v", [table["v"][0].as_py() + 1, *table["v"].to_pylist()[1:]])


def null_a_text(table: pa.Table) -> pa.Table:
    return _with(table, "note", [None, *table["note"].to_pylist()[1:]])


def swap_a_column_of_two_rows(table: pa.Table) -> pa.Table:
    first, second, *others = table["note"].to_pylist()
    assert first != second
    return _with(table, "note", [second, first, *others])


def swap_two_columns(table: pa.Table) -> pa.Table:
    notes, docs = table["note"], table["doc"]
    return _with(_with(table, "note", docs.to_pylist()), "doc", notes.to_pylist())


def round_an_amount(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.schema.get_field_index("amount"),
        table.schema.field("amount"),
        pc.round(table["amount"], 1).cast(table.schema.field("amount").type),
    )


def _with(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))


DAMAGES: tuple[Callable[[pa.Table], pa.Table], ...] = (
    lose_a_row,
    double_a_row,
    replace_a_row_by_its_neighbour,
    change_a_number,
    null_a_text,
    swap_a_column_of_two_rows,
    swap_two_columns,
    round_an_amount,
)


def with_damage(kernel: Callable[[Any, int], Any], damage: Callable[[pa.Table], pa.Table]) -> Callable[[Any, int], Any]:
    """Wrap the kernel so that the first file it writes is damaged."""

    def run(task: Any, attempt: int) -> Any:
        from thermocline.parquet.encode import lake_writer as parquet_out
        from thermocline.runtime.file_io import flush_written

        damaged: list[str] = []

        def flush_and_damage(filesystem: Any, path: str) -> None:
            flush_written(filesystem, path)
            if not damaged:
                damaged.append(path)
                table = pq.ParquetFile(path).read()
                pq.write_table(
                    damage(table), path, compression="zstd", store_schema=False, store_decimal_as_integer=True
                )

        vars(parquet_out)["flush_written"] = flush_and_damage
        try:
            return kernel(task, attempt)
        finally:
            vars(parquet_out)["flush_written"] = flush_written

    return run
