"""Write deletion vectors: the deleted rows of data files of a format version 3 table, as blobs of one Puffin file.

    PFA1 | blob | … | PFA1 | footer as JSON | its length | flags | PFA1

A blob is a length, a magic number, the positions as a 64-bit roaring bitmap, and a CRC-32 of magic number and bitmap.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from thermocline.parquet.encode.lake_writer import not_written, open_location
from thermocline.runtime.file_io import flush_written, make_folder

VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_MAGIC = b"PFA1"
_POSITION_FIELD = 2_147_483_645


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """One vector of the file: its data file, how many rows it deletes, and its offset and length."""

    data_file: str
    rows: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorFile:
    path: str
    size_bytes: int
    vectors: tuple[DeletionVector, ...]


def write_vectors(
    path: str, positions: Mapping[str, npt.NDArray[np.int64]], register: Callable[[str], None]
) -> DeletionVectorFile:
    """Write one Puffin file with a vector for each data file. The path is registered before the file is created."""
    body, vectors = bytearray(_MAGIC), []
    for data_file in sorted(positions):
        blob = render_vector(positions[data_file])
        vectors.append(
            DeletionVector(
                data_file=data_file, rows=len(np.unique(positions[data_file])), offset=len(body), length=len(blob)
            )
        )
        body += blob
    body += _footer(vectors)
    filesystem, inner = open_location(path)
    register(path)
    try:
        make_folder(filesystem, inner.rpartition("/")[0])
        with filesystem.open_output_stream(inner) as sink:
            sink.write(bytes(body))
        flush_written(filesystem, inner)
    except OSError as problem:
        raise not_written(path, problem) from problem
    return DeletionVectorFile(path=path, size_bytes=len(body), vectors=tuple(vectors))


def render_vector(positions: npt.NDArray[np.int64]) -> bytes:
    """The blob of these positions."""
    body = VECTOR_MAGIC + bytes(BitMap64(positions.astype(np.uint64)).serialize())
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _footer(vectors: list[DeletionVector]) -> bytes:
    blobs = [
        {
            "type": "deletion-vector-v1",
            "fields": [_POSITION_FIELD],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": vector.offset,
            "length": vector.length,
            "properties": {"referenced-data-file": vector.data_file, "cardinality": str(vector.rows)},
        }
        for vector in vectors
    ]
    payload = json.dumps({"blobs": blobs, "properties": {"created-by": "Thermocline"}}).encode()
    return _MAGIC + payload + struct.pack("<ii", len(payload), 0) + _MAGIC
