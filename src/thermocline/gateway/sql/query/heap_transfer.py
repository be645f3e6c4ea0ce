"""How values travel from Postgres to DuckDB: the expression that sends them, and the Arrow array that they become."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from thermocline.gateway.sql.query.sql_types import Kind
from thermocline.gateway.sql.values import NotProvable

_OLDEST_DAY = -2_440_588


_OLDEST_MICROSECOND = _OLDEST_DAY * 86_400_000_000


_WHOLE_DIGITS = 17


_MICROS_OF_DAY = 86_400_000_000


def travelling(value: sql.Composable, kind: Kind, *, is_column: bool = True) -> sql.Composable:
    """A value as it travels: small decimals of columns as whole numbers, other decimals and uuids as text.

    Only a column's digits are bounded by Postgres itself: what is computed may have more than were planned, and as text
    it shows them.
    """
    if kind.family == "numeric":
        if is_column and kind.precision <= _WHOLE_DIGITS:
            return sql.SQL("({} * {})::bigint").format(value, sql.Literal(10**kind.scale))
        return sql.SQL("({})::text").format(value)
    return sql.SQL("({})::text").format(value) if kind.family == "uuid" else value


def arrived(column: pa.ChunkedArray, kind: Kind) -> pa.Array:
    """The values as they were; what has no exact form here sends the statement to Postgres."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if kind.family == "numeric":
        return _decimals(array, kind)
    if kind.family == "time" and (pc.max(array.cast(pa.int64())).as_py() or 0) >= _MICROS_OF_DAY:
        raise NotProvable("the end of a day as a time, which DuckDB does not hold")
    if kind.is_moment:
        oldest = _OLDEST_DAY if kind.family == "date" else _OLDEST_MICROSECOND
        low = pc.min(array.cast(pa.int32() if kind.family == "date" else pa.int64())).as_py()
        if low is not None and low < oldest:
            raise NotProvable("a moment without an end, which DuckDB does not hold")
    return array.cast(kind.arrow) if array.type != kind.arrow else array


def _decimals(array: pa.Array, kind: Kind) -> pa.Array:
    if not pa.types.is_integer(array.type):
        return array.cast(pa.string()).cast(kind.arrow)
    numbers = np.zeros((len(array), 2), np.int64)
    numbers[:, 0] = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    numbers[:, 1] = numbers[:, 0] >> 63
    made = pa.Array.from_buffers(kind.arrow, len(array), [None, pa.py_buffer(numbers.tobytes())])
    return made if array.null_count == 0 else pc.if_else(array.is_valid(), made, pa.scalar(None, kind.arrow))
