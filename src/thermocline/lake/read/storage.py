"""Locate and read files of the lake.

Iceberg keeps locations as their writer spelled them: `/a b/x`, `file:/a b/x`, `file:///a%20b/x`, `s3://bucket/a b/x`.
The spelling that exists on disk wins: the location is decoded only when nothing exists under the literal one. In an
object store only the literal one counts.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from thermocline.core.maintenance.files import is_relative
from thermocline.errors import LakeFileUnreadable
from thermocline.runtime.file_io import open_location
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.object_store import is_object_location

FILE_URI_PATTERN = r"^file:(?://[^/]*)?(/.*)$"
"""For engines that compare locations as text: the first group is `without_file_scheme`."""

_PATTERN_CHARACTERS = frozenset("*?[")


def readable_path(location: str) -> str:
    """The location as DuckDB opens it: a local path, or the object's URI."""
    return _checked_object(location) if is_object_location(location) else readable_local_path(location)


def _checked_object(location: str) -> str:
    if _PATTERN_CHARACTERS & set(location):
        raise LakeFileUnreadable(
            f"Lake file {location} has *, ? or [ in its name, which the gateway would take for a pattern."
        )
    return location


def readable_local_path(location: str) -> str:
    """The local path of a `file:` location."""
    path = without_file_scheme(location)
    if "://" in path or not path.startswith("/"):
        raise LakeFileUnreadable(f"Lake file {location} is not in a store this gateway can read.")
    if "%" in path and not os.path.exists(path) and os.path.exists(unquote(path)):
        return unquote(path)
    return path


class LakeInput(InputFile):
    """A lake file opened for reading."""

    def __len__(self) -> int:
        if is_object_location(self.location):
            filesystem, path = open_location(self.location)
            return int(filesystem.get_file_info(path).size or 0)
        return os.path.getsize(readable_local_path(self.location))

    def exists(self) -> bool:
        if is_object_location(self.location):
            filesystem, path = open_location(self.location)
            return bool(filesystem.get_file_info(path).is_file)
        return os.path.exists(readable_local_path(self.location))

    def open(self, seekable: bool = True) -> InputStream:
        try:
            if is_object_location(self.location):
                filesystem, path = open_location(self.location)
                stream: InputStream = filesystem.open_input_file(path)
                return stream
            return open(readable_local_path(self.location), "rb")
        except OSError as problem:
            reason = problem.strerror or str(problem).splitlines()[0]
            raise LakeFileUnreadable(f"Lake file {self.location} cannot be read: {reason}.") from problem


def absolute_path(path: str, base: str) -> str:
    """A path as written; a relative one is below the table's location."""
    return f"{base.rstrip('/')}/{path}" if base and is_relative(path) else path


class LakeReader(FileIO):
    """Reads the lake and never writes. Relative paths are below `base`."""

    def __init__(self, base: str = "") -> None:
        super().__init__()
        self.base = base

    def new_input(self, location: str) -> InputFile:
        return LakeInput(absolute_path(location, self.base))

    def new_output(self, location: str) -> OutputFile:
        raise PermissionError("the lake is read-only here")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise PermissionError("the lake is read-only here")
