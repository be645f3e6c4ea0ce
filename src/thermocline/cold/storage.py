"""Where a file of the lake is, and how its bytes are read.

Iceberg keeps locations as written by whoever wrote them: `/a b/x`, `file:/a b/x`, `file:///a%20b/x`. The spelling on disk wins, decoded
only when nothing stands under the literal one.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from thermocline.errors import LakeFileUnreadable
from thermocline.locations import without_file_scheme

FILE_URI_PATTERN = r"^file:(?://[^/]*)?(/.*)$"
"""For engines that compare locations as text: what the first group keeps is `without_file_scheme`."""


def local_path(location: str) -> str:
    """The path on this machine of a `file:` location."""
    path = without_file_scheme(location)
    if "://" in path or not path.startswith("/"):
        raise LakeFileUnreadable(f"Lake file {location} is not in a store this gateway can read.")
    if "%" in path and not os.path.exists(path) and os.path.exists(unquote(path)):
        return unquote(path)
    return path


class LakeInput(InputFile):
    """A lake file opened for reading."""

    def __len__(self) -> int:
        return os.path.getsize(local_path(self.location))

    def exists(self) -> bool:
        return os.path.exists(local_path(self.location))

    def open(self, seekable: bool = True) -> InputStream:
        try:
            return open(local_path(self.location), "rb")
        except OSError as problem:
            raise LakeFileUnreadable(f"Lake file {self.location} cannot be read: {problem.strerror}.") from problem


class LakeReader(FileIO):
    """Reads the lake; writes nothing, ever."""

    def new_input(self, location: str) -> InputFile:
        return LakeInput(location)

    def new_output(self, location: str) -> OutputFile:
        raise PermissionError("the lake is read-only here")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise PermissionError("the lake is read-only here")
