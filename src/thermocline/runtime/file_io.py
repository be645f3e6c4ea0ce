"""Open, write and flush files by location, on this machine or in an object store.

pyarrow is imported by the functions that open a file system: a command that only sets `use_fsync` does not wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from thermocline.runtime import PREFIX
from thermocline.runtime.locations import local_path
from thermocline.runtime.object_store import ObjectStore, current_store, is_object_location, path_in_store

if TYPE_CHECKING:
    import pyarrow.fs as fs

_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5, 60, 5
_WRITTEN_BACK_SECONDS = 900.0
"""Linux writes back pages that have been dirty for 30 seconds; a busy disk may need longer."""

_FSYNC = f"{PREFIX}FSYNC"
_OFF = ("off", "false", "no", "0")
_flushes: bool | None = None


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location and the path in it. Locations are literal: nothing in them is percent-encoded."""
    import pyarrow.fs as fs

    if is_object_location(location):
        return open_store(current_store()), path_in_store(location)
    scheme, colon, rest = location.partition(":")
    if location.startswith("/") or not colon or scheme == "file":
        return fs.LocalFileSystem(), "/" + (rest if scheme == "file" and colon else location).lstrip("/").rstrip("/")
    authority, _, path = rest.removeprefix("//").partition("/")
    filesystem, root = fs.FileSystem.from_uri(f"{scheme}://{authority}")
    return filesystem, f"{root.rstrip('/')}/{path}".rstrip("/")


@lru_cache(maxsize=4)
def open_store(store: ObjectStore) -> fs.S3FileSystem:
    """pyarrow's client of an object store. It retries transient failures with growing pauses."""
    import pyarrow.fs as fs

    keys = {"access_key": store.access_key, "secret_key": store.secret_key, "session_token": store.session_token}
    return fs.S3FileSystem(
        **{name: value for name, value in keys.items() if value is not None},
        region=store.region,
        endpoint_override=store.host,
        scheme="https" if store.is_encrypted else "http",
        force_virtual_addressing=store.endpoint is not None and not store.path_style,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        background_writes=False,
    )


def make_folder(filesystem: fs.FileSystem, path: str) -> None:
    """Make a folder whose name survives a power failure. Object stores have no folders, and creating one there would
    leave an empty object."""
    import pyarrow.fs as fs

    if not isinstance(filesystem, fs.LocalFileSystem):
        return
    missing, above = [], path.rstrip("/")
    while above and not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for made in reversed(missing):
        flush_path(os.path.dirname(made))


def copy_file(source: str, target: str) -> None:
    """Copy one file, within one file system or between two, and flush the copy."""
    import pyarrow.fs as fs

    from_store, from_path = open_location(source)
    to_store, to_path = open_location(target)
    make_folder(to_store, to_path.rsplit("/", 1)[0])
    fs.copy_files(from_path, to_path, source_filesystem=from_store, destination_filesystem=to_store)
    flush_written(to_store, to_path)


def use_fsync(is_on: bool) -> None:
    """Set whether this process, and the tasks it starts, flush the files they write."""
    global _flushes
    _flushes = is_on


def is_flushing() -> bool:
    """Whether written files are flushed: set by `use_fsync`, else inherited from the parent's `fsync_environment`."""
    return os.environ.get(_FSYNC, "on").lower() not in _OFF if _flushes is None else _flushes


def fsync_environment() -> dict[str, str]:
    """The environment variables that hand this process's fsync setting to a child process or task."""
    return {_FSYNC: "on" if is_flushing() else "off"}


def flush_written(filesystem: fs.FileSystem, path: str) -> None:
    """Flush a finished file and its directory entry, so that both survive a power failure. Object stores need no flush.

    Every writer calls this before anything refers to the file.
    """
    import pyarrow.fs as fs

    if isinstance(filesystem, fs.LocalFileSystem):
        flush_to_disk(path)


def flush_to_disk(path: str) -> None:
    """Flush a local file and its directory entry."""
    for one in (path, os.path.dirname(path)):
        flush_path(one)


def flush_path(path: str | os.PathLike[str]) -> None:
    """Call fsync on one local file or folder, unless fsync is off."""
    if not is_flushing():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_recent(locations: Iterable[str], now: float) -> int:
    """Flush the local files that the system may not have written back yet; the number of files.

    For files of other programs, which may not flush what they write.
    """
    flushed = 0
    for path in (found for location in locations if (found := local_path(location)) is not None):
        try:
            is_recent = path.stat().st_mtime > now - _WRITTEN_BACK_SECONDS
        except FileNotFoundError:
            continue
        if is_recent:
            flush_to_disk(str(path))
            flushed += 1
    return flushed
