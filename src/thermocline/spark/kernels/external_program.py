"""Bins rewritten by a program outside: it is given a bin as JSON on its standard input and answers with JSON on its
standard output.

    {"version": 1, "bin": 3, "inputs": [{"path": …, "size_bytes": …, "record_count": …}, …], "schema": {…},
     "may_write": [path, …],
     "target_bytes": …, "compression": "zstd", "compression_level": 1, "sort": [{"field_id": …, …}],
     "bounds": {"floor_snapshot": …, "floor_holder": …, "protected_snapshots": {…}, "protected_files": …}}
    → {"outputs": [{"path": …}, …]}

Nothing it says is believed: it may write only the files it was given names for, which are registered before; what it
wrote is held against the bin's inputs column by column (`check_outputs.py`), and where a sort was requested, rows
must be in that order. Bins with deletes, of tables whose rows have ids, or along a curve are never handed out; our own
kernel takes those.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from thermocline.errors import ExternalEngineFailed, OutsideThePlan
from thermocline.parquet.rewrite_task import BinResult, BinTask
from thermocline.parquet.sort.check_order import check_row_order
from thermocline.spark.kernels.check_outputs import check_replacement, sum_inputs
from thermocline.spark.kernels.compact_bin import run_bin

_TIMEOUT_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalKernel:
    """Travels to the tasks; `command` is run where the task runs."""

    command: str
    bounds: Mapping[str, Any] = field(default_factory=dict)
    """The bounds of the pass, as a dry run prints them."""

    def __call__(self, task: BinTask, register: Callable[[str], None], pace: Callable[[int, int], None]) -> BinResult:
        if why_not_hand_out(task) is not None:
            return run_bin(task, register, pace)
        names = output_names(task)
        for name in names:
            register(name)
        found = sum_inputs(task, pace)
        answer = _run_program(self.command, task.number, json.dumps(bin_to_json(task, names, self.bounds)))
        outputs = check_replacement(task, found, _paths(task, answer, names), pace)
        if task.kernel == "sort":
            check_row_order(task, outputs, pace)
        read, wrote = sum(file.size_bytes for file in task.inputs), sum(output.size_bytes for output in outputs)
        # As if sorted: the new positions are unknown, so a delete committed meanwhile discards the bin.
        return BinResult(
            number=task.number,
            kernel="sort",
            outputs=outputs,
            rows_read=sum(file.record_count for file in task.inputs),
            rows_written=sum(output.rows for output in outputs),
            bytes_read=read,
            bytes_written=wrote,
            note="written by the external engine",
        )


def why_not_hand_out(task: BinTask) -> str | None:
    """Why our own kernel processes a bin: the protocol cannot express it, or the result could not be checked."""
    if task.deletes:
        return "deletes apply"
    if task.keep_lineage:
        return "each row's id has to be kept"
    return "an order along a curve cannot be checked" if task.kernel in ("zorder", "hilbert") else None


def output_names(task: BinTask) -> tuple[str, ...]:
    """The paths that the program may write: more than it should need."""
    most = 2 * sum(file.size_bytes for file in task.inputs) // max(task.target_bytes, 1) + 2
    return tuple(f"{task.directory.rstrip('/')}/{task.name_prefix}-x{at:05d}.parquet" for at in range(most))


def bin_to_json(task: BinTask, names: Sequence[str], bounds: Mapping[str, Any]) -> dict[str, Any]:
    """The request document."""
    return {
        "version": 1,
        "bin": task.number,
        "inputs": [
            {"path": file.path, "size_bytes": file.size_bytes, "record_count": file.record_count}
            for file in task.inputs
        ],
        "schema": json.loads(task.schema_json),
        "may_write": list(names),
        "target_bytes": task.target_bytes,
        "compression": task.compression,
        "compression_level": task.compression_level,
        "sort": [asdict(term) for term in task.sort],
        "bounds": dict(bounds),
    }


def _run_program(command: str, number: int, document: str) -> Any:
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
        raise ExternalEngineFailed(f"The external engine could not be run: {problem}.") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it wrote no error message"
        raise ExternalEngineFailed(f"The external engine failed on bin {number} with code {done.returncode}: {last}.")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise ExternalEngineFailed(f"The external engine's answer to bin {number} is not JSON.") from None


def _paths(task: BinTask, answer: Any, names: Sequence[str]) -> list[str]:
    """The output paths in the answer; each must be one of the given paths, and none may repeat."""
    outputs = answer.get("outputs") if isinstance(answer, dict) else None
    if not isinstance(outputs, list) or not all(
        isinstance(output, dict) and isinstance(output.get("path"), str) for output in outputs
    ):
        raise OutsideThePlan(f"The external engine's answer to bin {task.number} has no outputs with paths.")
    paths = [str(output["path"]) for output in outputs]
    if stranger := next((path for path in paths if path not in names), None):
        raise OutsideThePlan(f"The external engine wrote {stranger}, which is outside its plan; nothing was committed.")
    if len(set(paths)) != len(paths):
        raise OutsideThePlan(f"The external engine named a file twice for bin {task.number}.")
    return paths
