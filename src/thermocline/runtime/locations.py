"""File locations: `file:///path` or the URI of an object store, taken literally.

Iceberg and Hadoop do not decode percent signs in a location, so this module does not either: a directory called
`lake house` is `file:///…/lake house`.
"""

from __future__ import annotations

import re
from pathlib import Path

_FILE_URI = re.compile(r"^file:(?://[^/]*)?(?=/)")


def location_of(folder: str) -> str:
    """A folder as a location; a bare path means the local file system."""
    if "://" in folder or folder.startswith("file:"):
        return folder.rstrip("/")
    return f"file://{Path(folder).absolute()}"


def without_file_scheme(location: str) -> str:
    """The location without its `file:` scheme, so that two spellings of one file are equal."""
    return _FILE_URI.sub("", location, count=1)


def local_path(location: str) -> Path | None:
    """The path on this machine, or None when the location is in another store."""
    plain = without_file_scheme(location)
    return Path(plain) if plain.startswith("/") else None
