"""Create a lake table: write its first metadata file. The caller adds it to the catalog in its own transaction.

So a registration that fails leaves no table behind, and at worst one unreferenced metadata file, which the caller
removes.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from urllib.parse import quote

from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import parse_transform
from pyiceberg.types import NestedField

from thermocline.core.columns import LakeColumn, identifier_fields
from thermocline.core.names import TableName
from thermocline.errors import LakeNotWritable
from thermocline.lake.catalogs.storage_properties import store_properties
from thermocline.runtime.directories import make_private_directory
from thermocline.runtime.locations import local_path, location_of
from thermocline.runtime.object_store import current_store

OWNER_PROPERTY = "thermocline.owner"
CORRECTIONS_PROPERTY = "thermocline.pending-corrections"
"""Tells readers of the lake alone that newer images of its rows may exist in Postgres; a number would be outdated at
once."""
PROPERTIES = {
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "zstd",
    # Metadata files are pruned by our own safety rule, never by count.
    "write.metadata.delete-after-commit.enabled": "false",
    "commit.retry.num-retries": "0",
    # Expiry and orphan removal of other programs do not know our readers; this property makes them refuse.
    "gc.enabled": "false",
    OWNER_PROPERTY: "thermocline",
    CORRECTIONS_PROPERTY: (
        "Corrections of these rows may wait in Postgres: thermocline.pin() tells how many, the seam shows them."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedLake:
    """A lake table on storage, not yet in a catalog."""

    uuid: uuid.UUID
    location: str
    metadata_location: str


def plan_location(warehouse: str, name: TableName, table_uuid: uuid.UUID) -> str:
    """The location of a new table; no other table has files there."""
    return f"{location_of(warehouse)}/{quote(name.schema, safe='')}/{quote(name.table, safe='')}-{table_uuid.hex[:8]}"


def create_lake_table(
    warehouse: str,
    name: TableName,
    columns: tuple[LakeColumn, ...],
    tier_key: str,
    layout: str,
    *,
    table_uuid: uuid.UUID,
    is_shared: bool = False,
) -> CreatedLake:
    """Write the first metadata file of an empty table (format version 2) at a location of its own. On a disk its
    directory is for its owner alone, unless it is shared."""
    schema = Schema(*(_field(column) for column in columns), identifier_field_ids=identifier_fields(columns))
    location = plan_location(warehouse, name, table_uuid)
    metadata = new_table_metadata(
        schema=schema,
        partition_spec=_spec(columns, tier_key, layout),
        sort_order=UNSORTED_SORT_ORDER,
        location=location,
        properties={**PROPERTIES, "format-version": "2", "thermocline.heap": str(name)},
        table_uuid=table_uuid,
    )
    metadata_location = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
    try:
        if (directory := local_path(location)) is not None:
            make_private_directory(directory, is_shared=is_shared)
        ToOutputFile.table_metadata(
            metadata,
            load_file_io(store_properties(current_store()), metadata_location).new_output(metadata_location),
        )
    except OSError as problem:
        raise LakeNotWritable(f"The warehouse {warehouse} cannot be written: {problem}.") from problem
    return CreatedLake(uuid=table_uuid, location=location, metadata_location=metadata_location)


def _field(column: LakeColumn) -> NestedField:
    return NestedField.model_validate(
        {"id": column.field_id, "name": column.name, "type": column.lake_type, "required": column.required}
    )


def _spec(columns: tuple[LakeColumn, ...], tier_key: str, layout: str) -> PartitionSpec:
    if layout == "none":
        return PartitionSpec()
    source = next(column for column in columns if column.name == tier_key)
    label = f"{tier_key}_{layout.split('[')[0]}"
    taken = {column.name for column in columns}
    while label in taken:
        label += "_"
    return PartitionSpec(
        PartitionField(
            source_id=source.field_id, field_id=PARTITION_FIELD_ID_START, transform=parse_transform(layout), name=label
        )
    )
