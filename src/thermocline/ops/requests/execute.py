"""Verbs that change the lake, done in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from thermocline.core.names import TableName
from thermocline.errors import WorkerFailed
from thermocline.ops.fold import FoldReport, fold
from thermocline.ops.tier.tier_run import TierReport
from thermocline.ops.tier.tiering import tier
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings


def execute_request(
    verb: str,
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    worker: str = "local",
    report_progress: ProgressReporter = no_progress,
    dry_run: bool = False,
) -> TierReport | FoldReport:
    """Do it, or with `dry_run` say what would be done."""
    match verb:
        case "tier":
            return tier(
                dsn,
                name,
                settings=settings,
                spark=spark,
                worker=worker,
                report_progress=report_progress,
                dry_run=dry_run,
            )
        case "fold":
            return fold(
                dsn,
                name,
                settings=settings,
                spark=spark,
                worker=worker,
                report_progress=report_progress,
                dry_run=dry_run,
            )
    raise WorkerFailed(f"This worker does not know how to {verb}; it is older than the program that sent the request.")


def render_report(report: TierReport | FoldReport) -> dict[str, Any]:
    rate = {"rows_per_second": report.rows_per_second} if isinstance(report, FoldReport) else {}
    return {**asdict(report), **rate, "sentence": report.sentence}
