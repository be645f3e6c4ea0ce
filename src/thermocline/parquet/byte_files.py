"""Bytes of lake files in and out, in chunks that a pace can hold back: local files by their descriptor, stores through
pyarrow."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.fs

from thermocline.parquet.encode.lake_writer import not_written, open_location
from thermocline.parquet.rewrite_errors import damaged
from thermocline.runtime.file_io import flush_written, make_folder
from thermocline.runtime.locations import without_file_scheme

Pace = Callable[[int, int], None]
Register = Callable[[str], None]
CHUNK_BYTES = 4 << 20
TAIL_BYTES = 64 << 10
_NO_COPY = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM)
"""Errors of copy_file_range when it cannot copy between two files: other file systems, an older kernel, a sandbox."""


class FileSource:
    """A file to read from, at any offset."""

    def __init__(self, path: str, pace: Pace) -> None:
        self.path = path
        self._pace = pace
        self._tail: bytes | None = None
        self.descriptor = -1
        self._file: pa.NativeFile | None = None
        try:
            if (local := without_file_scheme(path)).startswith("/"):
                self.descriptor = os.open(local, os.O_RDONLY)
                self.size_bytes = os.fstat(self.descriptor).st_size
            else:
                filesystem, inner = open_location(path)
                self._file = filesystem.open_input_file(inner)
                self.size_bytes = int(self._file.size())
        except OSError as problem:
            raise damaged(path, problem.strerror or problem) from problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        else:
            os.close(self.descriptor)

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
            found = os.pread(self.descriptor, size, offset)
            while 0 < len(found) < size and (more := os.pread(self.descriptor, size - len(found), offset + len(found))):
                found += more
        if len(found) < size:
            raise damaged(self.path, "it ends early")
        self._pace(size, 0)
        return found


class FileSink:
    """A new file, written from front to back; registered before it is made, and on disk for good once it is closed."""

    def __init__(self, path: str, register: Register, pace: Pace) -> None:
        self.path = path
        self.at = 0
        self._pace = pace
        self._descriptor = -1
        self._stream: pa.NativeFile | None = None
        self._filesystem, self._inner = filesystem, inner = open_location(path)
        register(path)
        try:
            make_folder(filesystem, os.path.dirname(inner))
            if isinstance(filesystem, pa.fs.LocalFileSystem):
                self._descriptor = os.open(inner, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            else:
                self._stream = filesystem.open_output_stream(inner)
        except OSError as problem:
            raise not_written(path, problem) from problem

    def write(self, data: bytes) -> None:
        try:
            if self._stream is not None:
                self._stream.write(data)
            else:
                left = memoryview(data)
                while left:
                    left = left[os.write(self._descriptor, left) :]
        except OSError as problem:
            raise not_written(self.path, problem) from problem
        self.at += len(data)
        self._pace(0, len(data))

    def copy(self, source: FileSource, offset: int, size: int) -> None:
        """Append a range of another file; between two local files inside the kernel."""
        while size > 0:
            piece = min(size, CHUNK_BYTES)
            copied = self._copy_local(source, offset, piece)
            if not copied:
                self.write(source.read_at(offset, piece))
                copied = piece
            offset += copied
            size -= copied

    def _copy_local(self, source: FileSource, offset: int, size: int) -> int:
        """How many bytes the kernel copied; 0 when it cannot, and the bytes go through this process."""
        if self._descriptor < 0 or source.descriptor < 0 or offset < 0 or offset + size > source.size_bytes:
            return 0
        try:
            copied = os.copy_file_range(source.descriptor, self._descriptor, size, offset_src=offset)
        except OSError as problem:
            if problem.errno in _NO_COPY:
                return 0
            raise not_written(self.path, problem) from problem
        self.at += copied
        self._pace(copied, copied)
        return copied

    def close(self) -> None:
        try:
            self._release()
            flush_written(self._filesystem, self._inner)
        except OSError as problem:
            raise not_written(self.path, problem) from problem

    def abandon(self) -> None:
        """Release the file after a failure. The path stays registered, so that it is removed later."""
        self._release()

    def _release(self) -> None:
        if self._stream is not None:
            self._stream.close()
        elif self._descriptor >= 0:
            handle, self._descriptor = self._descriptor, -1
            os.close(handle)
