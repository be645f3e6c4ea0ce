"""Iceberg's own maintenance actions, which the procedures `CALL system.rewrite_data_files` and others run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from thermocline.lake.commit.compare_and_swap import LakeHead


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What an action replaced: files before and after."""

    before: int
    after: int
    bytes: int = 0
    removed_deletes: int = 0
    failed: int = 0


def run_rewrite_data_files(
    head: LakeHead, strategy: Literal["binpack", "sort", "zorder"], columns: Sequence[str], options: Mapping[str, str]
) -> ActionResult:
    action = _actions(head).rewriteDataFiles(head.table)
    match strategy:
        case "binpack":
            action = action.binPack()
        case "sort":
            action = action.sort()
        case "zorder":
            action = action.zOrder(_strings(head, columns))
    for name, value in options.items():
        action = action.option(name, value)
    result = action.execute()
    return ActionResult(
        before=result.rewrittenDataFilesCount(),
        after=result.addedDataFilesCount(),
        bytes=result.rewrittenBytesCount(),
        removed_deletes=result.removedDeleteFilesCount(),
        failed=result.failedDataFilesCount(),
    )


def run_rewrite_position_deletes(head: LakeHead, options: Mapping[str, str]) -> ActionResult:
    action = _actions(head).rewritePositionDeletes(head.table)
    for name, value in options.items():
        action = action.option(name, value)
    result = action.execute()
    return ActionResult(
        before=result.rewrittenDeleteFilesCount(),
        after=result.addedDeleteFilesCount(),
        bytes=result.rewrittenBytesCount(),
    )


def run_rewrite_manifests(head: LakeHead) -> ActionResult:
    result = _actions(head).rewriteManifests(head.table).execute()
    return ActionResult(
        before=sum(1 for _ in result.rewrittenManifests()), after=sum(1 for _ in result.addedManifests())
    )


def _actions(head: LakeHead) -> Any:
    jvm: Any = head.spark._jvm
    return jvm.org.apache.iceberg.spark.actions.SparkActions.get(head.spark._jsparkSession)


def _strings(head: LakeHead, values: Sequence[str]) -> Any:
    gateway: Any = head.spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
