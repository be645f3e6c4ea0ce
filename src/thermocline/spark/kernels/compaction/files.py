"""Bytes of lake files in and out, in chunks that a pace can hold back: local files by their descriptor, stores through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.fs

from thermocline.locations import local_path
from thermocline.spark.kernels.compaction.problems import damaged
from thermocline.spark.kernels.parquet_out import flush_to_disk, not_written, open_location

Pace = Callable[[int, int], None]
Register = Callable[[str], None]
CHUNK_BYTES = 4 << 20
TAIL_BYTES = 64 << 10


class Source:
    """A file to read from, at any place."""

    def __init__(self, path: str, pace: Pace) -> None:
        self.path = path
        self._pace = pace
        self._tail: bytes | None = None
        self._descriptor = -1
        self._file: pa.NativeFile | None = None
        try:
            if (local := local_path(path)) is not None:
                self._descriptor = os.open(local, os.O_RDONLY)
                self.size_bytes = os.fstat(self._descriptor).st_size
            else:
                filesystem, inner = open_location(path)
                self._file = filesystem.open_input_file(inner)
                self.size_bytes = int(self._file.size())
        except OSError as problem:
            raise damaged(path, problem.strerror or problem) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
        else:
            os.close(self._descriptor)

    def tail(self) -> bytes:
        """The last bytes, read once; the whole file when it is small."""
        if self._tail is None:
            size = min(self.size_bytes, TAIL_BYTES)
            self._tail = self._read(self.size_bytes - size, size)
        return self._tail

    def head(self) -> bytes:
        return self.read_at(0, min(self.size_bytes, 8))

    def read_at(self, offset: int, size: int) -> bytes:
        """Exactly these bytes."""
        if offset < 0 or size < 0 or offset + size > self.size_bytes:
            raise damaged(self.path, "it points outside of itself")
        if self._tail is not None and offset >= (begin := self.size_bytes - len(self._tail)):
            return self._tail[offset - begin : offset - begin + size]
        return self._read(offset, size)

    def _read(self, offset: int, size: int) -> bytes:
        if self._file is not None:
            found = bytes(self._file.read_at(size, offset))
        else:
            found = os.pread(self._descriptor, size, offset)
            while 0 < len(found) < size and (more := os.pread(self._descriptor, size - len(found), offset + len(found))):
                found += more
        if len(found) < size:
            raise damaged(self.path, "it ends early")
        self._pace(size, 0)
        return found


class Sink:
    """A new file, written from front to back. Registered before it is made; on disk for good when closed."""

    def __init__(self, path: str, register: Register, pace: Pace) -> None:
        self.path = path
        self.at = 0
        self._pace = pace
        self._filesystem, self._inner = open_location(path)
        self._local = isinstance(self._filesystem, pa.fs.LocalFileSystem)
        register(path)
        try:
            if self._local:
                os.makedirs(os.path.dirname(self._inner), exist_ok=True)
            self._stream = self._filesystem.open_output_stream(self._inner)
        except OSError as problem:
            raise not_written(path, problem) from problem

    def write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as problem:
            raise not_written(self.path, problem) from problem
        self.at += len(data)
        self._pace(0, len(data))

    def copy(self, source: Source, offset: int, size: int) -> None:
        """Append a range of another file."""
        while size > 0:
            piece = min(size, CHUNK_BYTES)
            self.write(source.read_at(offset, piece))
            offset += piece
            size -= piece

    def close(self) -> None:
        try:
            self._stream.close()
            if self._local:
                flush_to_disk(self._inner)
        except OSError as problem:
            raise not_written(self.path, problem) from problem

    def abandon(self) -> None:
        """Let go after a failure; the path stays registered, so that somebody clears it away."""
        self._stream.close()
