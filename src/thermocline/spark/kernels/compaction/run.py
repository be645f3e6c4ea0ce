"""One bin rewritten: the kernel asked for, or re-encoding where splicing is not possible."""

from __future__ import annotations

from collections.abc import Callable

from thermocline.spark.kernels.compaction.reencode import reencode
from thermocline.spark.kernels.compaction.sorting import sort_bin
from thermocline.spark.kernels.compaction.splice import read_footers, splice, why_not_splice
from thermocline.spark.kernels.compaction.task import BinResult, BinTask


def run_bin(task: BinTask, register: Callable[[str], None], pace: Callable[[int, int], None]) -> BinResult:
    """The outputs. `register` is called with a path before its file is made, `pace` after each chunk with the bytes read and written."""
    if not task.inputs:
        return BinResult(number=task.number, kernel=task.kernel, outputs=(), rows_read=0, rows_written=0, bytes_read=0, bytes_written=0)
    if task.kernel in ("sort", "zorder", "hilbert"):
        return sort_bin(task, register, pace)
    if task.kernel == "reencode":
        return reencode(task, register, pace)
    footers = read_footers(task, pace)
    if reason := why_not_splice(task, footers):
        return reencode(task, register, pace, note=f"re-encoded: {reason}")
    return splice(task, footers, register, pace)
