"""Map deletion vectors that were committed during a rewrite to the rewritten files, one vector for each new file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.lake.commit.rewrite_files import NewDelete
from thermocline.maintain.operations.compaction_tasks import delete_source
from thermocline.parquet.deletes.deletion_vectors import DeletionVectorFile, write_vectors
from thermocline.parquet.deletes.read_deleted_rows import read_deletion_vector
from thermocline.parquet.deletes.row_map import Positions


def positions_in(vector: LiveDeleteFile) -> Positions:
    return read_deletion_vector(delete_source(vector), lambda _, __: None)


def holds_all(later: LiveDeleteFile, earlier: LiveDeleteFile) -> bool:
    """Whether a vector that replaced another deletes all of its rows. It does, unless rows were restored."""
    return later.referenced_file == earlier.referenced_file and bool(
        np.isin(positions_in(earlier), positions_in(later)).all()
    )


def write_moved(
    path: str,
    positions: Mapping[str, list[Positions]],
    same_partition: Mapping[str, LiveDataFile],
    register: Callable[[str], None],
) -> list[NewDelete]:
    """Write a vector for each new data file. `same_partition` has a live file of its partition for each of them."""
    if not positions:
        return []
    return new_vectors(
        write_vectors(path, {file: np.unique(np.concatenate(rows)) for file, rows in positions.items()}, register),
        same_partition,
    )


def new_vectors(made: DeletionVectorFile, same_partition: Mapping[str, LiveDataFile]) -> list[NewDelete]:
    """The vectors of a file as the commit adds them."""
    return [
        NewDelete(
            path=made.path,
            size_bytes=made.size_bytes,
            rows=vector.rows,
            like=same_partition[vector.data_file],
            referenced_file=vector.data_file,
            offset=vector.offset,
            length=vector.length,
        )
        for vector in made.vectors
    ]
