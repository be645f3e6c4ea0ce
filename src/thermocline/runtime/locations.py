"""How places in the lake are written: `file:///path` or a store's own URI, taken literally.

Iceberg and Hadoop never decode percent signs in a location, so neither do we: a directory called `lake house` is
`file:///…/lake house`.
"""

from __future__ import annotations

import re
from pathlib import Path

_FILE_URI = re.compile(r"^file:(?://[^/]*)?(?=/)")


def location_of(warehouse: str) -> str:
    """The warehouse as a location; a bare path means the local file system."""
    if "://" in warehouse or warehouse.startswith("file:"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).absolute()}"


def without_file_scheme(location: str) -> str:
    """The location without its `file:` scheme, so that two spellings of one file are equal."""
    return _FILE_URI.sub("", location, count=1)


def local_path(location: str) -> Path | None:
    """The path on this machine, or None when the location is in another store."""
    plain = without_file_scheme(location)
    return Path(plain) if plain.startswith("/") else None
