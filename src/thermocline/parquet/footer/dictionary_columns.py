"""Which columns of a Parquet file Arrow can read as dictionary arrays."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq

_PLAIN_OR_DICTIONARY = frozenset(("PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"))
"""Encodings, of values and of levels, of a column chunk that Arrow can decode into a dictionary array."""


def open_with_dictionaries(source: pa.NativeFile, wanted: Collection[str]) -> pq.ParquetFile:
    """Open a Parquet file that reads the wanted columns as dictionary arrays where Arrow can, and plain elsewhere."""
    metadata = pq.read_metadata(source)
    return pq.ParquetFile(source, metadata=metadata, read_dictionary=dictionary_columns(metadata, wanted))


def dictionary_columns(metadata: pq.FileMetaData, wanted: Collection[str]) -> list[str]:
    """The wanted columns that Arrow can read as dictionary arrays from every row group.

    A dictionary page is not enough: parquet-java continues with DELTA_BYTE_ARRAY when a dictionary grows too large.
    """
    if not wanted:
        return []
    columns = [column for column in range(metadata.num_columns) if metadata.schema.column(column).path in wanted]
    for row_group in range(metadata.num_row_groups):
        chunks = [(column, metadata.row_group(row_group).column(column)) for column in columns]
        columns = [
            column
            for column, chunk in chunks
            if chunk.has_dictionary_page and _PLAIN_OR_DICTIONARY.issuperset(chunk.encodings)
        ]
    return [metadata.schema.column(column).path for column in columns]
