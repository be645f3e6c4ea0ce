"""Rewrite one bin by the requested kernel; where it cannot be spliced, by merging or re-encoding."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from thermocline.parquet.copy.merge import merge
from thermocline.parquet.copy.merge_plan import plan_merge, why_bounds_mislead
from thermocline.parquet.copy.splice import read_footers, splice, why_not_splice, why_too_small
from thermocline.parquet.encode.reencode import reencode
from thermocline.parquet.footer.column_chunks import CannotMerge
from thermocline.parquet.rewrite_task import BinResult, BinTask
from thermocline.parquet.sort.sort_bin import sort_bin


def run_bin(task: BinTask, register: Callable[[str], None], pace: Callable[[int, int], None]) -> BinResult:
    """Write the outputs. `register` is called with a path before its file is created, `pace` after each chunk with the
    bytes read and written."""
    if not task.inputs:
        return BinResult(
            number=task.number,
            kernel=task.kernel,
            outputs=(),
            rows_read=0,
            rows_written=0,
            bytes_read=0,
            bytes_written=0,
        )
    if task.kernel in ("sort", "zorder", "hilbert"):
        return sort_bin(task, register, pace)
    if task.kernel == "reencode":
        return reencode(task, register, pace)
    with gc_paused():
        footers = read_footers(task, pace)
    if reason := why_not_splice(task, footers):
        return reencode(task, register, pace, note=f"re-encoded: {reason}")
    with gc_paused():
        reason = why_too_small(task, footers) or why_bounds_mislead(footers)
        if reason is None:
            return splice(task, footers, register, pace)
    plan = plan_merge(task, footers)
    if isinstance(plan, str):
        return reencode(task, register, pace, note=f"re-encoded: {reason}; not merged: {plan}")
    try:
        return merge(task, footers, plan, register, pace, note=f"merged: {reason}")
    except CannotMerge as problem:
        # Under new names: the unfinished files stay registered under the first ones.
        aside = replace(task, name_prefix=f"{task.name_prefix}-again")
        return reencode(aside, register, pace, note=f"re-encoded: {reason}; not merged: {problem}")


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector: thousands of footers are a hundred thousand acyclic objects that it would scan
    repeatedly."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
