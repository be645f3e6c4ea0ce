"""Rewrite all files of a lake table as one bin, and read the outputs by Spark."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, Literal

from tests.spark.lake_table import Lake

from thermocline.parquet.rewrite_task import BinResult, BinTask, DeleteSource, InputFile, Kernel
from thermocline.spark.kernels.compact_bin import run_bin


def rewrite_bin(lake: Lake, out: Path, kernel: Kernel, **changes: Any) -> BinResult:
    """All files of the table as one bin, with the deletes that apply; nothing is committed."""
    files = lake.spark.sql(f"select * from {lake.sql_name}.entries where status < 2").collect()
    data = [entry for entry in files if entry.data_file.content == 0]
    gone = [entry for entry in files if entry.data_file.content > 0]
    sources = []
    for entry in gone:
        file = entry.data_file
        kind: Literal["position", "equality", "vector"] = "equality"
        if file.content == 1:
            kind = "vector" if file.file_format == "PUFFIN" else "position"
        sources.append(
            DeleteSource(
                path=file.file_path,
                kind=kind,
                size_bytes=file.file_size_in_bytes,
                sequence_number=entry.sequence_number,
                equality_ids=tuple(file.equality_ids or ()),
                referenced_file=file.referenced_data_file,
                offset=file.content_offset or 0,
                length=file.content_size_in_bytes or 0,
            )
        )
    inputs = tuple(
        InputFile(
            path=entry.data_file.file_path,
            size_bytes=entry.data_file.file_size_in_bytes,
            record_count=entry.data_file.record_count,
            sequence_number=entry.sequence_number,
            deletes=tuple(n for n, s in enumerate(sources) if s.sequence_number > entry.sequence_number),
        )
        for entry in sorted(data, key=lambda entry: (entry.sequence_number, entry.data_file.file_path))
    )
    head: Any = lake.head()
    task = BinTask(
        number=0,
        kernel=kernel,
        inputs=inputs,
        deletes=tuple(sources),
        directory=f"file://{out}",
        name_prefix="out",
        target_bytes=1 << 30,
        schema_json=lake.spark._jvm.org.apache.iceberg.SchemaParser.toJson(head.table.schema()),  # type: ignore[union-attr]
        **changes,
    )
    return run_bin(task, lambda _: None, lambda _, __: None)


def read_by_spark(lake: Lake, result: BinResult, where: str = "true") -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in lake.spark.read.parquet(*(output.path for output in result.outputs)).where(where).collect()
    ]


def render_exact(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows as texts that tell -0.0 from 0.0 and know one NaN."""
    plain = [
        [struct.pack("d", v).hex() if isinstance(v, float) and not math.isnan(v) else v for v in row] for row in rows
    ]
    return sorted(json.dumps(row, default=str) for row in plain)
