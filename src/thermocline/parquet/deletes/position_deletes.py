"""Write and read position delete files of format version 2: one file per lake partition and task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from thermocline.parquet.encode.lake_writer import not_written, open_location
from thermocline.parquet.footer.dictionary_columns import open_with_dictionaries
from thermocline.parquet.values.key_index import Rows
from thermocline.parquet.values.partition_values import PartitionValue
from thermocline.runtime.file_io import flush_written, make_folder

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDeletes:
    """One finished position delete file: what the commit needs to know of it."""

    path: str
    rows: int
    size_bytes: int
    partition: PartitionValue | None
    data_files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTarget:
    """Where delete files are written, as `FileTarget` says for data files."""

    directory: str
    stem: str
    compression_level: int


def write_deletes(
    target: DeleteTarget,
    partition: PartitionValue | None,
    positions: Mapping[str, Rows],
    register: Callable[[str], None],
) -> WrittenDeletes:
    """Write one file for the rows of one lake partition, sorted by path and position as the format requires."""
    filesystem, root = open_location(target.directory)
    folder = f"data/{partition.path}" if partition else "data"
    name = f"{folder}/{target.stem}-{partition.ordinal if partition else 0}-deletes.parquet"
    path = f"{target.directory.rstrip('/')}/{name}"
    paths = sorted(positions, key=lambda path: path.encode())
    counts = [len(positions[path]) for path in paths]
    table = pa.table(
        [
            pa.array(paths, pa.string()).take(pa.array(np.repeat(np.arange(len(paths)), counts))),
            pa.array(np.concatenate([np.sort(positions[path]) for path in paths])),
        ],
        schema=_SCHEMA,
    )
    register(path)
    try:
        make_folder(filesystem, f"{root}/{folder}")
        with filesystem.open_output_stream(f"{root}/{name}") as sink:
            pq.write_table(
                table,
                sink,
                compression="zstd",
                compression_level=target.compression_level,
                store_schema=False,
                version="2.6",
            )
        flush_written(filesystem, f"{root}/{name}")
        size = filesystem.get_file_info(f"{root}/{name}").size
    except OSError as problem:
        raise not_written(path, problem) from problem
    return WrittenDeletes(path=path, rows=table.num_rows, size_bytes=size, partition=partition, data_files=tuple(paths))


class PositionDeleteCache:
    """The positions that earlier position deletes removed from data files. Each delete file is read once."""

    def __init__(self) -> None:
        self._tables: dict[str, pa.Table] = {}

    def of(self, data_file: str, delete_files: Sequence[str]) -> Rows:
        """The deleted positions of a data file."""
        found = [self._positions(delete, data_file) for delete in delete_files]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _positions(self, delete_file: str, data_file: str) -> Rows:
        table = self._tables.get(delete_file)
        if table is None:
            filesystem, path = open_location(delete_file)
            with filesystem.open_input_file(path) as source:
                table = open_with_dictionaries(source, ["file_path"]).read(["file_path", "pos"], use_threads=False)
            self._tables[delete_file] = table
        named = pc.equal(table.column("file_path"), pa.scalar(data_file))
        return np.asarray(table.column("pos").filter(named).to_numpy(), dtype=np.int64)
