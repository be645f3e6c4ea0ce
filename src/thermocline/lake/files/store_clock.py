"""The time by the store's clock. Ages of files come from the store, and no other clock may be compared with them."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from datetime import UTC, datetime

from thermocline.errors.maintenance import StoreClockUnknown
from thermocline.runtime.file_io import open_location
from thermocline.runtime.locations import local_path

_PROBE = ".thermocline-clock"


def read_store_clock(folder: str) -> datetime:
    """The modification time of a file that is created in the folder and removed again."""
    probe = f"{folder.rstrip('/')}/{_PROBE}-{uuid.uuid4()}"
    try:
        return _touch(probe)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise StoreClockUnknown(
            f"The time of the store cannot be read, because no file can be made in {folder}: {reason}."
        ) from problem


def _touch(probe: str) -> datetime:
    if (path := local_path(probe)) is not None:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        try:
            os.write(handle, b"\n")  # a network file system gives its own time to what is written
            os.fsync(handle)
            return datetime.fromtimestamp(os.fstat(handle).st_mtime, UTC)
        finally:
            os.close(handle)
            path.unlink(missing_ok=True)
    filesystem, key = open_location(probe)
    with filesystem.open_output_stream(key) as sink:
        sink.write(b"\n")
    try:
        made = filesystem.get_file_info(key).mtime
    finally:
        with suppress(OSError):
            filesystem.delete_file(key)
    if made is None:
        raise OSError("it does not say when a file was written")
    moment: datetime = made
    return moment
