"""Directories that must be writable and have room: made where missing, refused with one sentence where unusable."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from thermocline.errors import DirectoryUnusable

LEAST_FREE_BYTES = 64 * 1024 * 1024


def make_private_directory(directory: Path, *, is_shared: bool = False) -> None:
    """Make the directory for its owner alone, whatever the modes of the files in it; one that is there stays as it
    is."""
    directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    directory.mkdir(mode=0o755 if is_shared else 0o700, exist_ok=True)


def check_warehouse(location: str, *, is_shared: bool = False) -> None:
    """Refuse a local warehouse that cannot be written or is full; object stores are checked by whoever writes to
    them."""
    if "://" not in location or location.startswith("file://"):
        directory = Path(location.removeprefix("file://"))
        with suppress(OSError):  # the check below says it
            make_private_directory(directory, is_shared=is_shared)
        check_directory(directory, "The warehouse")


def check_directory(directory: Path, what: str, least_free_bytes: int = LEAST_FREE_BYTES) -> None:
    """Create the directory where it is missing, write a probe file, and check its free space."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"thermocline")
            probe.flush()
        free_bytes = shutil.disk_usage(directory).free
    except OSError as problem:
        raise DirectoryUnusable(
            f"{what} {directory} cannot be written: {problem.strerror}.",
            hint="Make it writable, free space there, or name another one.",
        ) from problem
    if free_bytes < least_free_bytes:
        raise DirectoryUnusable(
            f"{what} {directory} has only {free_bytes // 2**20} MB free.",
            hint="Free some space there, or name another directory.",
        )
