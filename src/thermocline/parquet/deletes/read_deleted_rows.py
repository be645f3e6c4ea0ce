"""Read the positions that position deletes and deletion vectors remove from each input of a bin, sorted."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from thermocline.parquet.byte_files import FileSource, Pace
from thermocline.parquet.decode.input_reader import open_parquet, read_batches
from thermocline.parquet.decode.projection import field_id_of
from thermocline.parquet.deletes.deletion_vectors import VECTOR_MAGIC
from thermocline.parquet.deletes.row_map import Positions
from thermocline.parquet.rewrite_errors import damaged
from thermocline.parquet.rewrite_task import BinTask, DeleteSource
from thermocline.runtime.locations import without_file_scheme

_PATH_ID, _POSITION_ID = 2_147_483_546, 2_147_483_545
_S3 = re.compile(r"^s3[an]?://")


def normalise_location(location: str) -> str:
    """A location in the form in which locations are compared."""
    return _S3.sub("s3://", without_file_scheme(location))


def read_deleted_rows(task: BinTask, pace: Pace) -> list[Positions]:
    """For each input, the positions that position deletes and deletion vectors name."""
    found: list[list[Positions]] = [[] for _ in task.inputs]
    users: dict[int, list[int]] = {}
    for number, file in enumerate(task.inputs):
        for delete in file.deletes:
            users.setdefault(delete, []).append(number)
    for delete, inputs in users.items():
        source = task.deletes[delete]
        if source.kind == "vector":
            positions = read_deletion_vector(source, pace)
            for number in _referenced(task, source, inputs):
                found[number].append(positions)
        elif source.kind == "position":
            for number, positions in _read_position_file(task, source, inputs, pace):
                found[number].append(positions)
    return [np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64) for parts in found]


def _referenced(task: BinTask, source: DeleteSource, inputs: Sequence[int]) -> Iterator[int]:
    """The one data file of a deletion vector."""
    for number in inputs:
        if source.referenced_file is None or normalise_location(source.referenced_file) == normalise_location(
            task.inputs[number].path
        ):
            yield number


def _read_position_file(
    task: BinTask, source: DeleteSource, inputs: Sequence[int], pace: Pace
) -> Iterator[tuple[int, Positions]]:
    known = {normalise_location(task.inputs[number].path): number for number in inputs}
    with open_parquet(source.path) as file:
        path_name, position_name = _column_names(file, source.path)
    with open_parquet(source.path, [path_name]) as file:
        for batch in read_batches(file, source.path, [path_name, position_name], 1.0, pace):
            paths = batch.column(path_name)
            if not pa.types.is_dictionary(paths.type):
                paths = paths.dictionary_encode()
            named = np.array([_input_of(text, known) for text in paths.dictionary.to_pylist()], dtype=np.int64)
            if not len(named) or not bool(np.any(named >= 0)):
                continue
            owners = named[paths.indices.to_numpy(zero_copy_only=False)]
            positions = batch.column(position_name).to_numpy(zero_copy_only=False)
            for number in np.unique(owners[owners >= 0]):
                yield int(number), positions[owners == number].astype(np.int64)


def _column_names(file: pq.ParquetFile, path: str) -> tuple[str, str]:
    """The names of the path and position columns, found by reserved field id, else by name."""
    found = {}
    for field_id, usual in ((_PATH_ID, "file_path"), (_POSITION_ID, "pos")):
        by_id = [field.name for field in file.schema_arrow if field_id_of(field) == field_id]
        names = by_id or [name for name in file.schema_arrow.names if name == usual]
        if not names:
            raise damaged(path, f"it has no column {usual}, so it is no file of position deletes")
        found[usual] = names[0]
    return found["file_path"], found["pos"]


def _input_of(text: str, known: dict[str, int]) -> int:
    """The input that a delete file names, in any spelling; negative when it is not in this bin."""
    location = normalise_location(text)
    if location in known or location.startswith("/") or "://" in location:
        return known.get(location, -1)
    return next((number for path, number in known.items() if path.endswith("/" + location)), -1)


def read_deletion_vector(source: DeleteSource, pace: Pace) -> Positions:
    """The positions of a deletion vector: a Puffin blob of type `deletion-vector-v1`."""
    with FileSource(source.path, pace) as file:
        if source.offset < 0 or source.length < 12 or source.offset + source.length > file.size_bytes:
            raise damaged(source.path, "its deletion vector lies outside of the file")
        blob = file.read_at(source.offset, source.length)
    size = struct.unpack(">I", blob[:4])[0]
    body = blob[4 : 4 + size]
    if size + 8 != len(blob) or body[:4] != VECTOR_MAGIC:
        raise damaged(source.path, "there is no deletion vector where the table says")
    if zlib.crc32(body) != struct.unpack(">I", blob[4 + size :])[0]:
        raise damaged(source.path, "the checksum of its deletion vector is wrong")
    try:
        return np.frombuffer(BitMap64.deserialize(body[4:]).to_array(), dtype=np.uint64).astype(np.int64)
    except (ValueError, MemoryError) as problem:
        raise damaged(source.path, "its deletion vector cannot be decoded") from problem
