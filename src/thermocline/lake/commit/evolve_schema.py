"""Evolve the lake's schema to the table's columns: write a new metadata file. The caller swaps the catalog's pointer.

The file is the old metadata with a schema added and everything else unchanged, so that whatever other programs store in
it stays. It has no effect until the catalog points at it; `remove_evolved` removes it when that does not happen.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from thermocline.core.columns import LakeColumn, identifier_fields
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.core.plan.schema_change import SchemaField
from thermocline.errors import LakeNotWritable
from thermocline.lake.files.delete_files import delete_file
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.table_metadata import missing_property
from thermocline.runtime.file_io import flush_written, open_location

_VERSION = re.compile(r"^(\d+)-")


def fields_of(metadata: Mapping[str, Any]) -> tuple[SchemaField, ...]:
    """The fields of the current schema."""
    schema = next(schema for schema in metadata["schemas"] if schema["schema-id"] == metadata["current-schema-id"])
    return tuple(SchemaField(field_id=f["id"], name=f["name"], lake_type=str(f["type"])) for f in schema["fields"])


def write_evolved(
    metadata: Mapping[str, Any],
    location: str,
    columns: Sequence[LakeColumn],
    missing: Mapping[int, str],
    *,
    now_ms: int,
) -> str:
    """Write the successor of a metadata file with these columns as its schema; returns its location."""
    schema_id = max(schema["schema-id"] for schema in metadata["schemas"]) + 1
    schema = {
        "type": "struct",
        "schema-id": schema_id,
        "identifier-field-ids": identifier_fields(columns),
        "fields": [{"id": c.field_id, "name": c.name, "required": c.required, "type": c.lake_type} for c in columns],
    }
    names = {column.name for column in columns}
    changed = {
        **metadata,
        "last-updated-ms": max(now_ms, metadata["last-updated-ms"]),
        "last-column-id": max(metadata["last-column-id"], *(column.field_id for column in columns)),
        "schemas": [*metadata["schemas"], schema],
        "current-schema-id": schema_id,
        "partition-specs": [_without_clashes(spec, names) for spec in metadata["partition-specs"]],
        "properties": {
            **metadata.get("properties", {}),
            **{missing_property(number): text for number, text in missing.items()},
        },
        "metadata-log": [
            *metadata.get("metadata-log", ()),
            {"metadata-file": location, "timestamp-ms": metadata["last-updated-ms"]},
        ],
    }
    folder, _, name = location.rpartition("/")
    return write_metadata(changed, folder, int(found[1]) + 1 if (found := _VERSION.match(name)) else 1)


def write_metadata(metadata: Mapping[str, Any], folder: str, version: int) -> str:
    """Write a metadata file under a new name with this version; returns its location. No catalog points at it yet."""
    successor = f"{folder}/{version:05d}-{uuid.uuid4()}.metadata.json"
    try:
        _write(successor, json.dumps(metadata).encode())
    except OSError as problem:
        raise LakeNotWritable(f"The lake's metadata {successor} cannot be written: {problem}.") from problem
    return successor


def remove_evolved(location: str, head_location: str) -> None:
    """Remove a metadata file that no catalog points at; one that the current metadata or its log names stays."""
    metadata = read_metadata_file(head_location)
    needed = NeededFiles(metadata["location"], None)
    needed.need_paths([head_location, *(entry["metadata-file"] for entry in metadata.get("metadata-log", ()))])
    for file in needed.judge([ListedFile(path=location, size_bytes=0, modified=None)]).deletable:
        delete_file(file)


def _without_clashes(spec: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """The spec with its fields renamed where a column has the name, as Iceberg requires of all but identity fields."""
    fields = []
    for field in spec["fields"]:
        label = field["name"]
        while field["transform"] != "identity" and label in names:
            label += "_"
        fields.append({**field, "name": label})
    return {**spec, "fields": fields}


def _write(location: str, content: bytes) -> None:
    filesystem, path = open_location(location)
    with filesystem.open_output_stream(path) as sink:
        sink.write(content)
    flush_written(filesystem, path)
