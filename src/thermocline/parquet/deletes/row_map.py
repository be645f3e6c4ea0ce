"""Map positions of rewritten files to their new positions, for position deletes that were committed during the rewrite.

Pure: the row maps of a finished bin and positions in one of its inputs in, positions in its outputs out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from thermocline.parquet.rewrite_task import RowMap

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeletedRows:
    """Rows of one output, by position, sorted."""

    output: int
    rows: Positions


def removed_positions(row_map: RowMap) -> Positions:
    """The input's positions that the rewrite itself removed."""
    return np.frombuffer(row_map.removed, dtype="<i8").astype(np.int64, copy=False)


def pack_positions(positions: Positions) -> bytes:
    """Sorted positions as the bytes that a row map carries."""
    return positions.astype("<i8", copy=False).tobytes()


def map_deleted_rows(maps: Sequence[RowMap], positions: Positions) -> tuple[DeletedRows, ...]:
    """The positions of an input's rows after the rewrite; `maps` are all row maps of that input. Rows that the rewrite
    removed are left out."""
    if not maps or not len(positions):
        return ()
    wanted = np.unique(positions)
    removed = removed_positions(maps[0])
    before = np.searchsorted(removed, wanted)
    gone = np.zeros(len(wanted), dtype=bool)
    inside = before < len(removed)
    gone[inside] = removed[before[inside]] == wanted[inside]
    ranks = (wanted - before)[~gone]
    found = []
    for part in maps:
        here = ranks[(ranks >= part.first_kept) & (ranks < part.first_kept + part.rows)]
        if len(here):
            found.append(DeletedRows(output=part.output, rows=here - part.first_kept + part.first_row))
    return tuple(found)
