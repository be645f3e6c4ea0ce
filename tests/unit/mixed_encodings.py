"""Files of the same rows in different encodings and page versions."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
from tests.unit.bins import iceberg_schema, lake_field

SCHEMA = pa.schema(
    [
        lake_field("id", pa.int64(), 1),
        lake_field("name", pa.string(), 2),
        lake_field("x", pa.float64(), 3),
        lake_field("raw", pa.binary(), 4),
        lake_field("n", pa.int32(), 5),
        lake_field("ok", pa.bool_(), 6),
    ]
)
ICEBERG = iceberg_schema(
    (1, "id", "long"),
    (2, "name", "string"),
    (3, "x", "double"),
    (4, "raw", "binary"),
    (5, "n", "int"),
    (6, "ok", "boolean"),
)
DELTAS = {
    "id": "DELTA_BINARY_PACKED",
    "name": "DELTA_BYTE_ARRAY",
    "x": "BYTE_STREAM_SPLIT",
    "raw": "DELTA_LENGTH_BYTE_ARRAY",
    "n": "DELTA_BINARY_PACKED",
}
LENGTHS = {"name": "DELTA_LENGTH_BYTE_ARRAY", "raw": "DELTA_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED", "ok": "RLE"}
HOW: dict[str, dict[str, Any]] = {
    "dictionary": {"use_dictionary": True},
    "dictionary that overflows": {
        "use_dictionary": True,
        "dictionary_pagesize_limit": 16,
        "write_batch_size": 64,
        "data_page_size": 256,
    },
    "plain": {"use_dictionary": False},
    "delta": {"use_dictionary": False, "column_encoding": DELTAS},
    "delta lengths": {"use_dictionary": False, "column_encoding": LENGTHS},
}
WRITERS = {
    f"{name}, pages v{pages[0]}": {**how, "data_page_version": pages}
    for (name, how), pages in product(HOW.items(), ("1.0", "2.0"))
}
ROWS = 400


def make_rows(first: int, count: int = ROWS) -> pa.Table:
    ids = range(first, first + count)
    names = [None if i % 11 == 0 else f"a name that repeats {i % 7}" for i in ids]
    raw = [f"raw {i % 5}".encode() for i in ids]
    columns = [
        [i % 13 for i in ids],
        names,
        [None if i % 5 == 0 else i % 17 / 3 for i in ids],
        raw,
        [i % 3 for i in ids],
        [i % 4 == 0 for i in ids],
    ]
    return pa.table(columns, schema=SCHEMA)
