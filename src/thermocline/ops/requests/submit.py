"""Verbs that change the lake, on request: by a running worker with its warm Spark, else by this process under the same
lock."""

from __future__ import annotations

from typing import Any, Literal

from thermocline.catalog import requests, tables
from thermocline.core.names import TableName
from thermocline.errors import WaitedTooLong
from thermocline.ops.admin.places import check_places
from thermocline.ops.requests.wait import wait_for_result
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings

Verb = Literal["tier", "fold"]


def submit_request(
    verb: Verb,
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    report_progress: ProgressReporter = no_progress,
    local: bool = False,
    wait: bool = True,
    timeout_seconds: float = 3600,
) -> dict[str, Any]:
    """Tier or fold a table now; the report as data."""
    with connect(dsn, autocommit=True, application_name=f"thermocline {verb}") as conn:
        check_places(conn, settings)
        table = tables.find_table(conn, name)
        worker = None if local else requests.read_live_worker(conn)
        if worker is not None:
            request_id = requests.file_request(conn, table.id, verb)
            if not wait:
                return {"table": str(name), "request": request_id, "state": "pending"}
            return _await(conn, name, worker, request_id, report_progress, timeout_seconds)
    # Spark, Arrow and Iceberg take seconds to load, and a filed request needs none of them.
    from thermocline.ops.requests.execute import execute_request, render_report
    from thermocline.ops.requests.lazy_spark import lazy_spark_session

    return render_report(
        execute_request(
            verb, dsn, name, settings=settings, spark=lazy_spark_session(dsn, settings), report_progress=report_progress
        )
    )


def _await(
    conn: Connection,
    name: TableName,
    worker: str,
    request_id: int,
    report_progress: ProgressReporter,
    timeout_seconds: float,
) -> dict[str, Any]:
    gone = "The table was unregistered while the request waited."
    result = wait_for_result(
        lambda: requests.read_request(conn, request_id),
        report_progress,
        timeout_seconds,
        table=str(name),
        worker=worker,
        when_gone=gone,
    )
    if result is None:
        raise WaitedTooLong(f"The worker has not finished within {timeout_seconds:.0f} seconds; it goes on by itself.")
    return result
