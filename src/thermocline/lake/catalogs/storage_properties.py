"""Iceberg's properties for the storage of a warehouse: the same for every kind of catalog."""

from __future__ import annotations

from thermocline.runtime.object_store import ObjectStore, current_store, is_object_location

_LOCAL_FILES = {
    "hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    # Spark has opened Hadoop's own file system before, and would reuse the cached one whatever this says.
    "hadoop.fs.file.impl.disable.cache": "true",
}
"""Hadoop's own local file system runs `chmod` twice for each file it creates, 13 ms; this one makes the system call."""


def warehouse_properties(warehouse: str) -> dict[str, str]:
    """How Iceberg's Java side opens the files of a warehouse."""
    if not is_object_location(warehouse):
        return dict(_LOCAL_FILES)
    return {"io-impl": "org.apache.iceberg.io.ResolvingFileIO", **store_properties(current_store())}


def store_properties(store: ObjectStore) -> dict[str, str]:
    """An object store as the properties that Java's S3FileIO and PyIceberg read."""
    properties = {
        "s3.endpoint": store.endpoint,
        "s3.region": store.region,
        "client.region": store.region,
        "s3.path-style-access": "true" if store.path_style else "false",
        "s3.access-key-id": store.access_key,
        "s3.secret-access-key": store.secret_key,
        "s3.session-token": store.session_token,
    }
    return {name: value for name, value in properties.items() if value is not None}
