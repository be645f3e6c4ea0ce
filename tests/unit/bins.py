"""Bins to rewrite: lake files made by hand, with field ids, and the task over them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.parquet.rewrite_task import BinResult, BinTask, DeleteSource, InputFile
from thermocline.spark.kernels.compact_bin import run_bin

PATH_ID, POS_ID = "2147483546", "2147483545"


def lake_field(name: str, kind: pa.DataType, field_id: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={"PARQUET:field_id": str(field_id)})


def iceberg_schema(*fields: tuple[int, str, Any], required: Sequence[int] = (), **defaults: object) -> str:
    """Iceberg's JSON of a schema from (id, name, type); `defaults` are initial defaults by name."""
    found = []
    for number, name, kind in fields:
        entry: dict[str, object] = {"id": number, "name": name, "required": number in required, "type": kind}
        if name in defaults:
            entry["initial-default"] = defaults[name]
        found.append(entry)
    return json.dumps({"type": "struct", "schema-id": 1, "fields": found})


@dataclass(slots=True)
class Bin:
    """Inputs and deletes written so far; `run` rewrites them."""

    directory: Path
    schema: str = iceberg_schema((1, "id", "long"), (2, "name", "string"))
    inputs: list[InputFile] = field(default_factory=list)
    deletes: list[DeleteSource] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)
    paced: list[tuple[int, int]] = field(default_factory=list)

    def add(self, table: pa.Table, sequence: int = 1, **how: Any) -> str:
        """One data file; `how` goes to pyarrow's writer."""
        path = self.directory / f"in-{len(self.inputs)}.parquet"
        pq.write_table(table, path, **{"compression": "zstd", "store_schema": False, "version": "2.6", **how})
        return self.add_file(path, table.num_rows, sequence)

    def add_file(self, path: Path, rows: int, sequence: int = 1) -> str:
        location = f"file://{path}"
        self.inputs.append(
            InputFile(
                path=location, size_bytes=path.stat().st_size, record_count=rows, sequence_number=sequence, deletes=()
            )
        )
        return location

    def delete_positions(self, places: Sequence[tuple[str, int]], sequence: int = 2) -> None:
        schema = pa.schema(
            [
                lake_field("file_path", pa.string(), int(PATH_ID), False),
                lake_field("pos", pa.int64(), int(POS_ID), False),
            ]
        )
        table = pa.table([[path for path, _ in places], [place for _, place in places]], schema=schema)
        self._delete(table, DeleteSource(path="", kind="position", size_bytes=0, sequence_number=sequence))

    def delete_equal(self, table: pa.Table, ids: Sequence[int], sequence: int = 2) -> None:
        self._delete(
            table,
            DeleteSource(path="", kind="equality", size_bytes=0, sequence_number=sequence, equality_ids=tuple(ids)),
        )

    def _delete(self, table: pa.Table, source: DeleteSource) -> None:
        path = self.directory / f"delete-{len(self.deletes)}.parquet"
        pq.write_table(table, path, store_schema=False)
        self.deletes.append(
            DeleteSource(
                path=f"file://{path}",
                kind=source.kind,
                size_bytes=path.stat().st_size,
                sequence_number=source.sequence_number,
                equality_ids=source.equality_ids,
            )
        )

    def task(self, kernel: str = "splice", **changes: Any) -> BinTask:
        """The task, each input under the deletes that the sequence rule names."""
        inputs = tuple(
            InputFile(
                path=file.path,
                size_bytes=file.size_bytes,
                record_count=file.record_count,
                sequence_number=file.sequence_number,
                deletes=tuple(n for n, delete in enumerate(self.deletes) if _applies(delete, file)),
            )
            for file in self.inputs
        )
        given: dict[str, Any] = {"target_bytes": 1 << 30, "scratch": str(self.directory), **changes}
        return BinTask(
            number=7,
            kernel=kernel,  # type: ignore[arg-type]
            inputs=inputs,
            deletes=tuple(self.deletes),
            schema_json=self.schema,
            directory=f"file://{self.directory}/out",
            name_prefix=f"part-{len(self.registered)}",
            **given,
        )

    def run(self, kernel: str = "splice", **changes: Any) -> BinResult:
        return run_bin(
            self.task(kernel, **changes),
            self.registered.append,
            lambda read, written: self.paced.append((read, written)),
        )


def _applies(delete: DeleteSource, file: InputFile) -> bool:
    if delete.kind == "equality":
        return delete.sequence_number > file.sequence_number
    return delete.sequence_number >= file.sequence_number


def local(location: str) -> str:
    return location.removeprefix("file://")


def read_back(result: BinResult) -> pa.Table:
    """All outputs by Arrow, in their order."""
    return pa.concat_tables([pq.read_table(local(output.path)) for output in result.outputs])


def read_by_duckdb(
    result: BinResult, query: str = "select * from t", settings: Mapping[str, str] | None = None
) -> list[tuple[Any, ...]]:
    """A question to DuckDB over all outputs, called t."""
    files = [local(output.path) for output in result.outputs]
    with closing(duckdb.connect()) as conn:
        for name, value in (settings or {"timezone": "UTC"}).items():
            conn.execute(f"set {name} = '{value}'")
        conn.from_parquet(files, file_row_number=False).create_view("t")
        return conn.execute(query).fetchall()
