"""Read an Iceberg metadata file, gzipped or not."""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import closing
from typing import Any

from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.storage import LakeReader

_GZIP = b"\x1f\x8b"


def read_metadata_file(location: str) -> dict[str, Any]:
    """The file's JSON; `LakeFileUnreadable` where it is missing, truncated or not metadata."""
    with closing(LakeReader().new_input(location).open()) as stream:
        held = stream.read()
    try:
        metadata = json.loads(gzip.decompress(held) if held.startswith(_GZIP) else held)
    except (ValueError, OSError, EOFError, zlib.error) as problem:
        raise LakeFileUnreadable(f"Lake metadata {location} cannot be read: {problem}") from problem
    if not isinstance(metadata, dict):
        raise LakeFileUnreadable(f"Lake metadata {location} cannot be read: it is no JSON object")
    return metadata
