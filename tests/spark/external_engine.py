"""A program for the engine `external`: merges a bin as it is told, or misbehaves in the way its argument says."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = Path(__file__)
FIELD_ID = b"PARQUET:field_id"


def local(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/")


def retyped(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """The same values under another type, the ids left as they are."""
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at).with_type(kind), table.column(at).cast(kind))


def with_value(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    values = table.column(at).to_pylist()
    values[row] = value
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def with_field(table: pa.Table, name: str, field: pa.Field) -> pa.Table:
    """A column under a field of the same shape, whose ids are others."""
    at = table.schema.get_field_index(name)
    array = table.column(at).combine_chunks()
    return table.set_column(at, field, pa.array(array.to_pylist(), field.type))


def renumbered(field: pa.Field, field_id: bytes) -> pa.Field:
    return field.with_metadata({FIELD_ID: field_id})


def swapped_struct(table: pa.Table) -> pa.Table:
    field = table.schema.field("s")
    first, second = field.type.field(0), field.type.field(1)
    swapped = pa.struct([renumbered(first, second.metadata[FIELD_ID]), renumbered(second, first.metadata[FIELD_ID])])
    return with_field(table, "s", field.with_type(swapped))


def swapped_map(table: pa.Table) -> pa.Table:
    field = table.schema.field("kv")
    key, value = field.type.key_field, field.type.item_field
    swapped = pa.map_(renumbered(key, value.metadata[FIELD_ID]), renumbered(value, key.metadata[FIELD_ID]))
    return with_field(table, "kv", field.with_type(swapped))


def other_element(table: pa.Table) -> pa.Table:
    field = table.schema.field("tags")
    return with_field(table, "tags", field.with_type(pa.list_(renumbered(field.type.value_field, b"77"))))


def lie_in_the_footer(path: str, truth: int, lie: int) -> None:
    """Put another number where the footer says the lowest or highest id."""
    with open(path, "r+b") as file:
        data = file.read()
        size = struct.unpack("<I", data[-8:-4])[0]
        footer = data[-8 - size : -8].replace(struct.pack("<q", truth), struct.pack("<q", lie))
        file.seek(len(data) - 8 - size)
        file.write(footer)


LIES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "loses a row": lambda table: table.slice(1),
    "doubles a row": lambda table: pa.concat_tables([table, table.slice(0, 1)]),
    "doubles a row and loses another": lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]),
    "without field ids": lambda table: table.cast(pa.schema([pa.field(f.name, f.type) for f in table.schema])),
    "a narrower number": lambda table: retyped(table, "id", pa.int32()),
    "a text as bytes": lambda table: retyped(table, "name", pa.binary()),
    "a moment without its zone": lambda table: retyped(table, "at", pa.timestamp("us")),
    "a moment in milliseconds": lambda table: retyped(table, "at", pa.timestamp("ms", "UTC")),
    "another scale": lambda table: retyped(table, "amount", pa.decimal128(9, 3)),
    "a double for a float": lambda table: retyped(table, "x", pa.float64()),
    "swapped ids in a struct": swapped_struct,
    "swapped ids in a map": swapped_map,
    "another id in a list": other_element,
    "swapped columns": lambda table: table.cast(
        pa.schema(
            [
                renumbered(f, {b"8": b"9", b"9": b"8"}.get(f.metadata[FIELD_ID], f.metadata[FIELD_ID]))
                for f in table.schema
            ]
        )
    ),
    "an extra column": lambda table: table.append_column(
        pa.field("extra", pa.int32()), pa.nulls(table.num_rows, pa.int32())
    ),
    "a changed value": lambda table: with_value(table, "name", 3, "changed"),
    "a changed value in a list": lambda table: with_value(table, "tags", 3, ["t", "other"]),
    "a list in another order": lambda table: with_value(table, "tags", 3, [None, "t3"]),
    "a changed value in a map": lambda table: with_value(table, "kv", 3, [("k", -1)]),
    "a changed value in a struct": lambda table: with_value(table, "s", 3, {"a": 3, "b": 4}),
    "a struct of NULLs for NULL": lambda table: with_value(table, "s", 0, {"a": None, "b": None}),
    "an empty list for NULL": lambda table: with_value(table, "tags", 0, []),
    "a positive zero": lambda table: with_value(table, "x", 0, 0.0),
    "NULL for an empty text": lambda table: with_value(table, "name", 0, None),
    "another partition": lambda table: with_value(table, "region", 3, "eu"),
    "values moved between rows": lambda table: with_value(with_value(table, "name", 3, "n4"), "name", 4, "n3"),
}


def answer(task: dict[str, Any], manner: str) -> dict[str, Any]:
    """Process the bin in the given manner, and return the response."""
    merged = pa.concat_tables(pq.read_table(local(file["path"]), partitioning=None) for file in task["inputs"])
    if manner == "spoils an input first":
        spoilt = with_value(pq.read_table(local(task["inputs"][0]["path"]), partitioning=None), "name", 3, "spoilt")
        pq.write_table(spoilt, local(task["inputs"][0]["path"]))
        merged = pa.concat_tables(pq.read_table(local(file["path"]), partitioning=None) for file in task["inputs"])
    path = task["may_write"][0]
    told = {"outputs": [{"path": path}]}
    match manner:
        case "outside":
            path = path.replace("-x00000", "-elsewhere")
            told = {"outputs": [{"path": path}]}
        case "an input":
            return {"outputs": [{"path": task["inputs"][0]["path"]}]}
        case "twice":
            told["outputs"] *= 2
        case "above the bounds":
            sys.exit(
                "no bounds"
                if task["bounds"]["protected_snapshots"] == {}
                else f"held by {task['bounds']['floor_holder']}"
            )
        case "fails":
            sys.exit("I would rather not")
        case "no Parquet":
            with open(local(path), "wb") as file:
                file.write(b"PAR1 and nothing else that a footer would be PAR1")
            return told
        case _:
            merged = LIES.get(manner, lambda table: table)(merged)
    how: dict[str, Any] = {
        "store_schema": manner != "honest and without Arrow's schema",
        "data_page_version": "2.0" if "pages" in manner else "1.0",
    }
    if manner == "a column index":
        how["write_page_index"] = True
    if manner == "a bloom filter":
        how["bloom_filter_options"] = {"id": {"ndv": merged.num_rows, "fpp": 0.01}}
    pq.write_table(
        merged, local(path), compression=task["compression"], row_group_size=7 if "groups" in manner else None, **how
    )
    if manner.startswith("lies of its "):
        lie_in_the_footer(local(path), 0 if manner.endswith("lowest") else merged.num_rows - 1, 5)
    return told


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin), sys.argv[1])))
