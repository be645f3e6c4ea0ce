"""Lake files by location, on this machine or in an object store: opened, written, deleted in one way by everybody who touches bytes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import lru_cache

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from thermocline.locations import local_path
from thermocline.object_store import ObjectStore, current_store, is_object_location, path_in_store

_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 5, 60, 5
_WRITTEN_BACK_SECONDS = 900.0
"""Linux writes back what has been dirty for half a minute; a busy disk is given some more."""

_MANIFEST_LIST = re.compile(r"snap-\d+-\d+-(?P<commit>.+)\.avro")
_METADATA = re.compile(r"(?P<number>\d+)-.*\.metadata\.json(\.gz)?")
_PLAIN_OR_DICTIONARY = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))
"""Encodings, of values and of levels, of a chunk that Arrow can decode into a dictionary. Behind a dictionary page others may follow."""


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location and the path in it; Iceberg writes locations as they are, with nothing in them escaped."""
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
        numbers = [n for n, chunk in chunks if chunk.has_dictionary_page and _PLAIN_OR_DICTIONARY.issuperset(chunk.encodings)]
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
    """Object stores have no folders; making one there would leave an empty object behind."""
    if isinstance(filesystem, fs.LocalFileSystem):
        filesystem.create_dir(path, recursive=True)


def copy_file(source: str, target: str) -> None:
    """Copies one file, in one store or from one to another."""
    from_store, from_path = open_location(source)
    to_store, to_path = open_location(target)
    make_folder(to_store, to_path.rsplit("/", 1)[0])
    fs.copy_files(from_path, to_path, source_filesystem=from_store, destination_filesystem=to_store)
    if isinstance(to_store, fs.LocalFileSystem):
        flush_to_disk(to_path)


def flush_to_disk(path: str) -> None:
    """A file that is about to count must outlive a power cut, and so must its name."""
    for place in (path, os.path.dirname(path)):
        _flush(place)


def _flush(place: str | os.PathLike[str]) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_commit(manifest_list: str) -> int:
    """Flushes what a commit wrote beside its data, where that lies on this machine: manifests, their list, the newest metadata; how many.

    Iceberg leaves them to the system. What Postgres publishes next, and what it drops after that, rests on them.
    """
    if (path := local_path(manifest_list)) is None:
        return 0
    named = _MANIFEST_LIST.fullmatch(path.name)
    names = os.listdir(path.parent)
    wrote = [name for name in names if name == path.name or (named is not None and name.startswith(f"{named['commit']}-m"))]
    numbered = [(int(found["number"]), name) for name in names if (found := _METADATA.fullmatch(name)) is not None]
    newest = max(numbered, default=(0, ""))[0]
    wrote += [name for number, name in numbered if number == newest]
    for name in wrote:
        with suppress(FileNotFoundError):  # others prune what nobody needs any more
            _flush(path.parent / name)
    _flush(path.parent)
    return len(wrote)


def flush_young(locations: Iterable[str], now: float) -> int:
    """Flushes those of the files on this machine that the system may not have written to disk by itself yet; how many.

    A rewrite leaves its outputs to the system: what they replace is there until expiry deletes it, and expiry calls this first.
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


def delete_file(location: str) -> None:
    """Deletes one file; one that is gone already is no error."""
    if (file := local_path(location)) is not None:
        file.unlink(missing_ok=True)
        return
    filesystem, path = open_location(location)
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        return


def delete_tree(location: str) -> None:
    """Deletes every file below a location."""
    if (directory := local_path(location)) is not None:
        shutil.rmtree(directory, ignore_errors=True)
        return
    filesystem, path = open_location(location)
    for found in filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
        if found.type == fs.FileType.File:
            filesystem.delete_file(found.path)
