"""A program for the engine `external`: merges a bin as it is told, or misbehaves in the way its argument says."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def local(path: str) -> str:
    return "/" + path.removeprefix("file:").lstrip("/")


def main(manner: str) -> None:
    task = json.load(sys.stdin)
    merged = pa.concat_tables(pq.read_table(local(file["path"]), partitioning=None) for file in task["inputs"])
    path = task["may_write"][0]
    match manner:
        case "outside":
            path = path.replace("-x00000", "-elsewhere")
        case "an input":
            path = task["inputs"][0]["path"]
            print(json.dumps({"outputs": [{"path": path}]}))
            return
        case "twice":
            pq.write_table(merged, local(path))
            print(json.dumps({"outputs": [{"path": path}, {"path": path}]}))
            return
        case "above the bounds":
            sys.exit("no bounds" if task["bounds"]["protected_snapshots"] == {} else f"held by {task['bounds']['floor_holder']}")
        case "loses a row":
            merged = merged.slice(1)
        case "without field ids":
            merged = merged.replace_schema_metadata(None).cast(pa.schema([pa.field(f.name, f.type) for f in merged.schema]))
        case "fails":
            sys.exit("I would rather not")
    pq.write_table(merged, local(path), compression=task["compression"])
    print(json.dumps({"outputs": [{"path": path}]}))


if __name__ == "__main__":
    main(sys.argv[1])
