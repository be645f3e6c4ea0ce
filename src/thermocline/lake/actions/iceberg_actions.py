"""Iceberg's own maintenance: the actions behind `CALL system.rewrite_data_files` and the other procedures, run on a
staged table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from thermocline.lake.actions.staged_commit import StagedTable
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What an action replaced by what."""

    before: int
    after: int
    bytes: int = 0
    removed_deletes: int = 0
    failed: int = 0


def run_rewrite_data_files(
    staged: StagedTable,
    stamp: OpStamp,
    strategy: Literal["binpack", "sort", "zorder"],
    columns: Sequence[str],
    options: Mapping[str, str],
) -> ActionResult:
    action = _actions(staged.head).rewriteDataFiles(staged.table)
    match strategy:
        case "binpack":
            action = action.binPack()
        case "sort":
            action = action.sort()
        case "zorder":
            action = action.zOrder(_strings(staged.head, columns))
    result = _with_options(action, stamp, options).execute()
    return ActionResult(
        before=result.rewrittenDataFilesCount(),
        after=result.addedDataFilesCount(),
        bytes=result.rewrittenBytesCount(),
        failed=result.failedDataFilesCount(),
    )


def remove_dangling_deletes(staged: StagedTable, stamp: OpStamp) -> ActionResult:
    """Drop delete files that apply to no data file. It reads the head from tasks, so it needs a head of its own."""
    result = _with_options(_actions(staged.head).removeDanglingDeleteFiles(staged.table), stamp, {}).execute()
    return ActionResult(before=0, after=0, removed_deletes=sum(1 for _ in result.removedDeleteFiles()))


def run_rewrite_position_deletes(staged: StagedTable, stamp: OpStamp, options: Mapping[str, str]) -> ActionResult:
    result = _with_options(_actions(staged.head).rewritePositionDeletes(staged.table), stamp, options).execute()
    return ActionResult(
        before=result.rewrittenDeleteFilesCount(),
        after=result.addedDeleteFilesCount(),
        bytes=result.rewrittenBytesCount(),
    )


def run_rewrite_manifests(staged: StagedTable, stamp: OpStamp) -> ActionResult:
    result = _with_options(_actions(staged.head).rewriteManifests(staged.table), stamp, {}).execute()
    return ActionResult(
        before=sum(1 for _ in result.rewrittenManifests()), after=sum(1 for _ in result.addedManifests())
    )


def _with_options(action: Any, stamp: OpStamp, options: Mapping[str, str]) -> Any:
    for key, value in stamp.summary().items():
        action = action.snapshotProperty(key, value)
    for name, value in options.items():
        action = action.option(name, value)
    return action


def _actions(head: LakeHead) -> Any:
    jvm: Any = head.spark._jvm
    return jvm.org.apache.iceberg.spark.actions.SparkActions.get(head.spark._jsparkSession)


def _strings(head: LakeHead, values: Sequence[str]) -> Any:
    gateway: Any = head.spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
