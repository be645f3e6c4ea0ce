"""Bins rewritten by a program outside: it is given a bin as JSON on its standard input and answers with JSON on its standard output.

    {"version": 1, "bin": 3, "inputs": [{"path": …, "size_bytes": …, "record_count": …}, …], "schema": {…}, "may_write": [path, …],
     "target_bytes": …, "compression": "zstd", "compression_level": 1, "sort": [{"field_id": …, …}],
     "bounds": {"floor_snapshot": …, "floor_holder": …, "protected_snapshots": {…}, "protected_files": …}}
    → {"outputs": [{"path": …}, …]}

Nothing it says is believed: it may write only the files it was given names for, which are registered before, their footers must add
up to the inputs' rows and carry the table's field ids, and where a sort was asked for, their rows must be in that order. Bins with
deletes, and those of tables whose rows have ids, are never handed out; our own kernel takes those.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.lake_files import open_location
from thermocline.maintenance_errors import OutsideThePlan
from thermocline.parquet_metrics import group_offset
from thermocline.spark.kernels.compaction.in_order import check_in_order
from thermocline.spark.kernels.compaction.run import run_bin
from thermocline.spark.kernels.compaction.task import BinResult, BinTask, OutputFile

_FIELD_ID = b"PARQUET:field_id"
_TIMEOUT_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalKernel:
    """Travels to the tasks; `command` is run where the task runs."""

    command: str
    bounds: Mapping[str, Any] = field(default_factory=dict)
    """What the pass must honour, as a dry run shows it."""

    def __call__(self, task: BinTask, register: Callable[[str], None], pace: Callable[[int, int], None]) -> BinResult:
        if task.deletes or task.keep_lineage:
            return run_bin(task, register, pace)
        names = output_names(task)
        for name in names:
            register(name)
        outputs = tuple(_checked(task, path) for path in _paths(task, self._ask(task, names), names))
        rows = sum(file.record_count for file in task.inputs)
        written = sum(output.rows for output in outputs)
        if written != rows:
            raise OutsideThePlan(f"Bin {task.number} has {rows:,} rows, and the external engine wrote {written:,}; nothing was committed.")
        if task.kernel == "sort":
            check_in_order(task, outputs, pace)
        read, wrote = sum(file.size_bytes for file in task.inputs), sum(output.size_bytes for output in outputs)
        pace(read, wrote)
        # As if sorted: nobody knows where a row went, so a delete that arrives meanwhile costs the bin.
        return BinResult(
            number=task.number,
            kernel="sort",
            outputs=outputs,
            rows_read=rows,
            rows_written=written,
            bytes_read=read,
            bytes_written=wrote,
            note="written by the external engine",
        )

    def _ask(self, task: BinTask, names: Sequence[str]) -> Any:
        return _ask(self.command, task.number, json.dumps(bin_to_json(task, names, self.bounds)))


def output_names(task: BinTask) -> tuple[str, ...]:
    """The files the program may write: more than it should need."""
    most = 2 * sum(file.size_bytes for file in task.inputs) // max(task.target_bytes, 1) + 2
    return tuple(f"{task.directory.rstrip('/')}/{task.name_prefix}-x{at:05d}.parquet" for at in range(most))


def bin_to_json(task: BinTask, names: Sequence[str], bounds: Mapping[str, Any]) -> dict[str, Any]:
    """What is handed out."""
    return {
        "version": 1,
        "bin": task.number,
        "inputs": [{"path": file.path, "size_bytes": file.size_bytes, "record_count": file.record_count} for file in task.inputs],
        "schema": json.loads(task.schema_json),
        "may_write": list(names),
        "target_bytes": task.target_bytes,
        "compression": task.compression,
        "compression_level": task.compression_level,
        "sort": [asdict(term) for term in task.sort],
        "bounds": dict(bounds),
    }


def _ask(command: str, number: int, document: str) -> Any:
    try:
        done = subprocess.run(
            shlex.split(command),
            input=document,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise OutsideThePlan(f"The external engine could not be run: {problem}.") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it said nothing"
        raise OutsideThePlan(f"The external engine failed on bin {number} with code {done.returncode}: {last}.")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise OutsideThePlan(f"The external engine's answer to bin {number} is not JSON.") from None


def _paths(task: BinTask, answer: Any, names: Sequence[str]) -> list[str]:
    """Files that the program was given names for, each once."""
    outputs = answer.get("outputs") if isinstance(answer, dict) else None
    if not isinstance(outputs, list) or not all(isinstance(output, dict) and isinstance(output.get("path"), str) for output in outputs):
        raise OutsideThePlan(f"The external engine's answer to bin {task.number} has no outputs with paths.")
    paths = [str(output["path"]) for output in outputs]
    if stranger := next((path for path in paths if path not in names), None):
        raise OutsideThePlan(f"The external engine wrote {stranger}, which is outside its plan; nothing was committed.")
    if len(set(paths)) != len(paths):
        raise OutsideThePlan(f"The external engine named a file twice for bin {task.number}.")
    return paths


def _checked(task: BinTask, path: str) -> OutputFile:
    try:
        files, inner = open_location(path)
        with files.open_input_file(inner) as source:
            size = source.size()
            footer = pq.read_metadata(source)
    except (OSError, pa.ArrowException) as problem:
        raise OutsideThePlan(f"The external engine named {path}, which cannot be read: {problem}.") from None
    wanted = {field["id"] for field in json.loads(task.schema_json)["fields"]}
    found = {int((field.metadata or {}).get(_FIELD_ID, b"-1")) for field in footer.schema.to_arrow_schema()}
    if found != wanted:
        raise OutsideThePlan(f"The columns of {path} do not carry the table's field ids.")
    offsets = tuple(group_offset(footer.row_group(at)) for at in range(footer.num_row_groups))
    return OutputFile(path=path, size_bytes=size, rows=footer.num_rows, split_offsets=offsets)
