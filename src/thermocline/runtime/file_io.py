"""Lake files by location, on this machine or in an object store: opened, written, flushed in one way by everybody who
touches bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from thermocline.runtime.locations import local_path
from thermocline.runtime.object_store import ObjectStore, current_store, is_object_location, path_in_store
from thermocline.runtime.settings import PREFIX

_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5, 60, 5
_WRITTEN_BACK_SECONDS = 900.0
"""Linux writes back what has been dirty for half a minute; a busy disk is given some more."""

_FSYNC = f"{PREFIX}FSYNC"
_OFF = ("off", "false", "no", "0")
_flushes: bool | None = None
_MANIFEST_LIST = re.compile(r"snap-\d+-\d+-(?P<commit>.+)\.avro")
_METADATA = re.compile(r"(?P<number>\d+)-.*\.metadata\.json(\.gz)?")
_PLAIN_OR_DICTIONARY = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))
"""Encodings, of values and of levels, of a chunk that Arrow can decode into a dictionary. Behind a dictionary page
others may follow."""


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location and the path in it; Iceberg writes locations as they are, with nothing in them
    escaped."""
    if is_object_location(location):
        return open_store(current_store()), path_in_store(location)
    scheme, colon, rest = location.partition(":")
    if location.startswith("/") or not colon or scheme == "file":
        return fs.LocalFileSystem(), "/" + (rest if scheme == "file" and colon else location).lstrip("/").rstrip("/")
    authority, _, path = rest.removeprefix("//").partition("/")
    filesystem, root = fs.FileSystem.from_uri(f"{scheme}://{authority}")
    return filesystem, f"{root.rstrip('/')}/{path}".rstrip("/")


def open_dictionaries(source: pa.NativeFile, wanted: Collection[str]) -> pq.ParquetFile:
    """A Parquet file that gives these columns as dictionaries where Arrow can, and plain where it cannot."""
    metadata = pq.read_metadata(source)
    return pq.ParquetFile(source, metadata=metadata, read_dictionary=dictionary_names(metadata, wanted))


def dictionary_names(metadata: pq.FileMetaData, wanted: Collection[str]) -> list[str]:
    """Those of the wanted columns that every row group encodes so that Arrow can make dictionaries of them.

    A dictionary page is not enough: parquet-java goes on with DELTA_BYTE_ARRAY where a dictionary grows too large.
    """
    if not wanted:
        return []
    numbers = [number for number in range(metadata.num_columns) if metadata.schema.column(number).path in wanted]
    for place in range(metadata.num_row_groups):
        chunks = [(number, metadata.row_group(place).column(number)) for number in numbers]
        numbers = [
            n for n, chunk in chunks if chunk.has_dictionary_page and _PLAIN_OR_DICTIONARY.issuperset(chunk.encodings)
        ]
    return [metadata.schema.column(number).path for number in numbers]


@lru_cache(maxsize=4)
def open_store(store: ObjectStore) -> fs.S3FileSystem:
    """pyarrow's client of a store; short failures are tried again, with growing pauses."""
    named = {"access_key": store.access_key, "secret_key": store.secret_key, "session_token": store.session_token}
    keys = {name: value for name, value in named.items() if value is not None}
    return fs.S3FileSystem(
        **keys,
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
    """A folder whose name outlives a power cut. Object stores have none; making one there would leave an empty object
    behind."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        return
    missing, above = [], path.rstrip("/")
    while above and not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for made in reversed(missing):
        _flush(os.path.dirname(made))


def copy_file(source: str, target: str) -> None:
    """Copies one file, in one store or from one to another."""
    from_store, from_path = open_location(source)
    to_store, to_path = open_location(target)
    make_folder(to_store, to_path.rsplit("/", 1)[0])
    fs.copy_files(from_path, to_path, source_filesystem=from_store, destination_filesystem=to_store)
    flush_written(to_store, to_path)


def use_fsync(is_on: bool) -> None:
    """From now on this process, and the Spark tasks it starts, flush what they write, or leave it to the system."""
    global _flushes
    _flushes = is_on


def is_flushing() -> bool:
    """What `use_fsync` said, else what the process that started this one handed down by `fsync_environment`."""
    return os.environ.get(_FSYNC, "on").lower() not in _OFF if _flushes is None else _flushes


def fsync_environment() -> dict[str, str]:
    """What a Spark task needs in its environment to flush as this process does."""
    return {_FSYNC: "on" if is_flushing() else "off"}


def flush_written(filesystem: fs.FileSystem, path: str) -> None:
    """A file that is finished and about to count must outlive a power cut, and so must its name. A store keeps what it
    took.

    Every writer of lake files calls this before it tells anybody of the file: no commit names one that is in memory
    only.
    """
    if isinstance(filesystem, fs.LocalFileSystem):
        flush_to_disk(path)


def flush_to_disk(path: str) -> None:
    """Flushes a file of this machine and its name."""
    for place in (path, os.path.dirname(path)):
        _flush(place)


def _flush(place: str | os.PathLike[str]) -> None:
    if not is_flushing():
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_manifests(manifest_list: str) -> int:
    """Flushes the manifests of a commit and their list, where they lie on this machine; how many. Iceberg leaves them
    to the system."""
    if (path := local_path(manifest_list)) is None or not is_flushing():
        return 0
    named = _MANIFEST_LIST.fullmatch(path.name)
    names = os.listdir(path.parent)
    return _flush_names(
        path.parent,
        [
            name
            for name in names
            if name == path.name or (named is not None and name.startswith(f"{named['commit']}-m"))
        ],
    )


def flush_commit(manifest_list: str) -> int:
    """Flushes what a commit wrote beside its data, where that lies on this machine: manifests, their list, the newest
    metadata; how many.

    What Postgres publishes next, and what it drops after that, rests on them.
    """
    if (path := local_path(manifest_list)) is None or not is_flushing():
        return 0
    numbered = [
        (int(found["number"]), name)
        for name in os.listdir(path.parent)
        if (found := _METADATA.fullmatch(name)) is not None
    ]
    newest = max(numbered, default=(0, ""))[0]
    return flush_manifests(manifest_list) + _flush_names(
        path.parent, [name for number, name in numbered if number == newest]
    )


def _flush_names(folder: Path, names: Sequence[str]) -> int:
    for name in names:
        with suppress(FileNotFoundError):  # others prune what nobody needs any more
            _flush(folder / name)
    _flush(folder)
    return len(names)


def flush_young(locations: Iterable[str], now: float) -> int:
    """Flushes those of the files on this machine that the system may not have written to disk by itself yet; how many.

    Our own writers flush what they write. Others may not have, and expiry deletes what their files replaced.
    """
    flushed = 0
    for path in (found for location in locations if (found := local_path(location)) is not None):
        try:
            is_young = path.stat().st_mtime > now - _WRITTEN_BACK_SECONDS
        except FileNotFoundError:
            continue
        if is_young:
            flush_to_disk(str(path))
            flushed += 1
    return flushed
