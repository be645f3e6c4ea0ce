"""Find the rows of a lake file that have one of many keys: a join on the primary key that holds one column of one row
group in memory.

Each key column is encoded as codes (the index of a value among the keys' distinct values), and the codes of the columns
are packed into one. A lake row without a code for a column is dropped before the next column is read. Columns whose
stored form is not canonical (`1.0` and `1.00` are one key) are left out: the caller compares those by Postgres' own
equality.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    values: pa.Array
    packed: Rows


class KeyIndex:
    """The keys of one fold task; `names` are the exact key columns, most selective first."""

    def __init__(self, keys: pa.Table, names: Sequence[str]) -> None:
        self._steps: list[_Step] = []
        self.groups: Rows = np.zeros(keys.num_rows, dtype=np.int64)
        """The group of each key: keys of one group are equal in every exact column."""
        for name in names:
            column = normalise_key_column(keys.column(name))
            values = column.unique()
            own = _codes(column, values)
            packed, self.groups = np.unique(self.groups * len(values) + own, return_inverse=True)
            self._steps.append(_Step(name, values, packed))

    def find(self, read: Callable[[str], pa.ChunkedArray]) -> tuple[Rows, Rows]:
        """The rows of a row group that have one of the keys, and the key group of each; `read` returns one of its
        columns."""
        rows: Rows | None = None
        groups: Rows = np.zeros(0, dtype=np.int64)
        for step in self._steps:
            column = normalise_key_column(read(step.name))
            if rows is None:
                rows, groups = np.arange(len(column), dtype=np.int64), np.zeros(len(column), dtype=np.int64)
            else:
                column = column.take(pa.array(rows))
            rows, groups = _narrowed(step, column, rows, groups)
            if not len(rows):
                break
        assert rows is not None
        return rows, groups


def _narrowed(step: _Step, column: pa.Array, rows: Rows, groups: Rows) -> tuple[Rows, Rows]:
    found = _codes(column, step.values)
    known = found >= 0
    packed = groups[known] * len(step.values) + found[known]
    at = np.searchsorted(step.packed, packed)
    at[at == len(step.packed)] = 0
    is_key = step.packed[at] == packed
    return rows[known][is_key], at[is_key].astype(np.int64)


def _codes(column: pa.Array, values: pa.Array) -> Rows:
    """The index of each value among `values`, -1 where it is not one of them."""
    found = pc.index_in(column, value_set=values)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def normalise_key_column(column: pa.ChunkedArray) -> pa.Array:
    """A key column as one array in which equal values have equal bytes."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))  # -0.0 and 0.0 are one key
    return array
