"""Find the column of a lake file that holds invalid UTF-8, after a statement failed because of it: DuckDB's error names
only the file."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.errors import LakeTextUnreadable
from thermocline.runtime.file_io import open_location

_SAID = re.compile(r'Invalid string encoding found in Parquet file "(.+?)"')


def find_invalid_utf8(message: str) -> LakeTextUnreadable | None:
    """The error with its column, when DuckDB's message is about invalid UTF-8."""
    found = _SAID.search(message)
    if found is None:
        return None
    try:
        column = _column_of(found[1])
    except (OSError, pa.ArrowException):
        column = None
    named = f'Column "{column}"' if column else "A column"
    return LakeTextUnreadable(f"{named} of lake file {found[1]} holds text that is not UTF-8.")


def _column_of(path: str) -> str | None:
    filesystem, inner = open_location(path)
    with filesystem.open_input_file(inner) as source:
        file = pq.ParquetFile(source)
        texts: list[str] = [
            field.name
            for field in file.schema_arrow
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        for group in range(file.metadata.num_row_groups):
            for name in texts:
                if not _is_text(file.read_row_group(group, columns=[name], use_threads=False).column(0)):
                    return name
    return None


def _is_text(column: pa.ChunkedArray) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
