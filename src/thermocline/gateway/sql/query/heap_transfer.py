"""Transfer values from Postgres to DuckDB: the expression that sends them, and the Arrow array that they become."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.values import NotProvable

_WHOLE_DIGITS = 17


def render_transfer(value: sql.Composable, sql_type: SqlType, *, is_column: bool = True) -> sql.Composable:
    """The expression of a transferred value: small decimals of columns as unscaled integers, other decimals and uuids
    as text.

    Only a column's digits are limited by its type: a computed value may have more than planned, and text keeps them.
    """
    if sql_type.family == "numeric":
        if is_column and sql_type.precision <= _WHOLE_DIGITS:
            return sql.SQL("({} * {})::bigint").format(value, sql.Literal(10**sql_type.scale))
        return sql.SQL("({})::text").format(value)
    return sql.SQL("({})::text").format(value) if sql_type.family == "uuid" else value


def decode_transfer(column: pa.ChunkedArray, sql_type: SqlType) -> pa.Array:
    """Decode transferred values. A value without an exact form in DuckDB sends the statement to Postgres."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if sql_type.family == "numeric":
        return _decimals(array, sql_type)
    lake = sql_type.declared.lake
    if lake.highest is not None or lake.lowest is not None:
        ends = pc.min_max(array.cast(pa.int32() if lake.storage == "int4" else pa.int64())).as_py()
        if ends["min"] is not None and (
            (lake.highest is not None and ends["max"] > lake.highest)
            or (lake.lowest is not None and ends["min"] < lake.lowest)
        ):
            raise NotProvable(f"a value such as {' or '.join(lake.not_held)}, which DuckDB does not hold")
    return array.cast(sql_type.arrow_type) if array.type != sql_type.arrow_type else array


def _decimals(array: pa.Array, sql_type: SqlType) -> pa.Array:
    if not pa.types.is_integer(array.type):
        return array.cast(pa.string()).cast(sql_type.arrow_type)
    numbers = np.zeros((len(array), 2), np.int64)
    numbers[:, 0] = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    numbers[:, 1] = numbers[:, 0] >> 63
    made = pa.Array.from_buffers(sql_type.arrow_type, len(array), [None, pa.py_buffer(numbers.tobytes())])
    return made if array.null_count == 0 else pc.if_else(array.is_valid(), made, pa.scalar(None, sql_type.arrow_type))
