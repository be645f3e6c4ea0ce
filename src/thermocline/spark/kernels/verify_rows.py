"""Hash the rows of lake files: the whole row, its key, and its tier key on the axis; deletes are applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.core.columns import LakeColumn
from thermocline.parquet.deletes.position_deletes import PositionDeleteCache
from thermocline.parquet.encode.lake_writer import open_location
from thermocline.parquet.values.arrow_types import arrow_type, lake_type_of_arrow, missing_scalar
from thermocline.parquet.values.partition_values import key_numbers
from thermocline.parquet.values.row_checksum import RowSum, hash_table, sum_hashes

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeShape:
    """The columns of a file's rows, the names of the key columns, and the tier key."""

    columns: tuple[LakeColumn, ...]
    key: tuple[str, ...]
    tier_key: str

    @property
    def key_columns(self) -> tuple[LakeColumn, ...]:
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """The live rows of one file, and the checksum of all rows that were written into it."""

    written: RowSum
    rows: U64
    ids: U64
    tier_keys: I64


def why_not_intact(path: str, size_bytes: int) -> str | None:
    """Why a file is not the one its manifest describes, or None."""
    filesystem, inner = open_location(path)
    found = filesystem.get_file_info(inner)
    if found.type != pa.fs.FileType.File:
        return f"file {path} is missing"
    if found.size != size_bytes:
        return f"file {path} has {found.size} bytes, and its manifest says {size_bytes}"
    return None


def read_file_rows(path: str, shape: LakeShape, deletes: Sequence[str], known: PositionDeleteCache) -> FileRows:
    """Hash every row of a file; rows that position deletes name count for the checksum only.

    The checksum covers the columns the file has, in its own types, as when it was written. The rows are read as the
    table's columns are now.
    """
    written, rows, ids, tier_keys = RowSum(), [], [], []
    for whole in _groups(path):
        own = own_columns(whole.schema)
        group = as_columns(whole, shape.columns)
        hashes = hash_table(group, shape.columns)
        written += sum_hashes(hashes if _is_plain(own, shape.columns) else hash_table(whole, own))
        rows.append(hashes)
        ids.append(hash_table(group.select(list(shape.key)), shape.key_columns))
        tier_keys.append(key_numbers(group.column(shape.tier_key).combine_chunks()))
    live = np.ones(written.rows, dtype=bool)
    live[known.of(path, deletes)] = False
    return FileRows(
        written=written,
        rows=np.concatenate([np.zeros(0, np.uint64), *rows])[live],
        ids=np.concatenate([np.zeros(0, np.uint64), *ids])[live],
        tier_keys=np.concatenate([np.zeros(0, np.int64), *tier_keys])[live],
    )


def read_key_texts(path: str, shape: LakeShape, ids: U64) -> list[str]:
    """The keys of the rows with these hashes, as text."""
    found: list[str] = []
    for group in _groups(path):
        keys = as_columns(group, shape.key_columns)
        matches = np.flatnonzero(np.isin(hash_table(keys, shape.key_columns), ids))
        found += ["(" + ", ".join(str(value) for value in row.values()) + ")" for row in keys.take(matches).to_pylist()]
    return found


def as_columns(table: pa.Table, columns: Sequence[LakeColumn]) -> pa.Table:
    """A file's rows as the table's columns are now: by field id, widened, and missing columns filled in."""
    by_id = {_field_id(field): at for at, field in enumerate(table.schema)}
    arrays: list[pa.ChunkedArray | pa.Array] = []
    for column in columns:
        if (at := by_id.get(column.field_id)) is None:
            arrays.append(_repeated(missing_scalar(column.missing, column.lake_type), table.num_rows))
        else:
            held, wanted = table.column(at), arrow_type(column.lake_type)
            arrays.append(
                held if held.type == wanted or isinstance(wanted, pa.BaseExtensionType) else held.cast(wanted)
            )
    return pa.table(arrays, names=[column.name for column in columns])


def own_columns(schema: pa.Schema) -> tuple[LakeColumn, ...]:
    """The columns of a file by its own schema."""
    return tuple(
        LakeColumn(
            name=field.name,
            field_id=_field_id(field),
            base_type="",
            pg_type="",
            lake_type=lake_type_of_arrow(field.type),
            form="native",
            required=not field.nullable,
        )
        for field in schema
    )


def _is_plain(own: Sequence[LakeColumn], columns: Sequence[LakeColumn]) -> bool:
    return [(c.field_id, c.lake_type.replace(" ", "")) for c in own] == [
        (c.field_id, c.lake_type.replace(" ", "")) for c in columns
    ]


def _field_id(field: pa.Field) -> int:
    return int((field.metadata or {}).get(b"PARQUET:field_id", b"-1"))


def _repeated(value: pa.Scalar, rows: int) -> pa.Array:
    if not value.is_valid:
        return pa.nulls(rows, value.type)
    if isinstance(value.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(value.type, pa.repeat(value.value, rows))
    return pa.repeat(value, rows)


def _groups(path: str) -> Iterator[pa.Table]:
    filesystem, inner = open_location(path)
    with filesystem.open_input_file(inner) as source:
        file = pq.ParquetFile(source)
        for group in range(file.metadata.num_row_groups):
            yield file.read_row_group(group, use_threads=False)
