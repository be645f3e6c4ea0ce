"""Force a pass: file a request for a running worker, else run it in this process under the same locks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thermocline.catalog import requests
from thermocline.catalog.maintenance import forced_passes as maintenance_requests
from thermocline.core.names import TableName
from thermocline.core.policy.operations import parse_operations
from thermocline.errors import WaitedTooLong
from thermocline.maintain.context import PassRequest
from thermocline.maintain.format.plugins import load_formats
from thermocline.maintain.targets import find_target
from thermocline.ops.requests.wait import wait_for_result
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings


def request_to_data(request: PassRequest) -> dict[str, Any]:
    """The request as stored data."""
    given = {"where": request.where, "engine": request.engine, "ignore_pacing": request.ignore_pacing}
    return {"operations": list(request.operations), "may_run_concurrently": request.may_run_concurrently, **given}


def request_from_data(stored: Mapping[str, Any]) -> PassRequest:
    load_formats()
    return PassRequest(
        operations=parse_operations(",".join(stored.get("operations", ()))),
        where=stored.get("where"),
        engine=stored.get("engine"),
        ignore_pacing=bool(stored.get("ignore_pacing")),
        forced=True,
    )


def force_pass(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    request: PassRequest,
    report_progress: ProgressReporter = no_progress,
    local: bool = False,
    wait: bool = True,
    timeout_seconds: float = 120,
) -> dict[str, Any]:
    """Run a pass now; returns its report as data, or the request's state when it is not waited for."""
    if not (local or request.dry_run):
        with connect(dsn, autocommit=True, application_name="thermocline maintain") as conn:
            seen = find_target(conn, name)
            worker = requests.read_live_worker(conn)
            if worker is not None or not wait:
                request_id = maintenance_requests.file_forced_pass(conn, seen.owner, request_to_data(request))
                if not wait:
                    return {"table": seen.label, "request": request_id, "state": "pending"}
                return _wait_for_report(conn, seen.label, worker, request_id, report_progress, timeout_seconds)
    # Spark, Arrow and Iceberg take seconds to load, and who only asks needs none of them.
    from thermocline.maintain.run_pass import render_pass, run_pass
    from thermocline.ops.requests.lazy_spark import lazy_spark_session

    return render_pass(
        run_pass(
            dsn,
            name,
            settings=settings,
            spark=lazy_spark_session(dsn, settings),
            request=request,
            report_progress=report_progress,
        )
    )


def _wait_for_report(
    conn: Connection,
    table: str,
    worker: str | None,
    request_id: int,
    report_progress: ProgressReporter,
    timeout_seconds: float,
) -> dict[str, Any]:
    gone = "The table was removed while the request waited."
    result = wait_for_result(
        lambda: maintenance_requests.read_forced_pass(conn, request_id),
        report_progress,
        timeout_seconds,
        table=table,
        worker=worker,
        when_gone=gone,
    )
    if result is None:
        raise WaitedTooLong(
            f"The pass has not finished within {timeout_seconds:.0f} seconds; request {request_id} stays."
        )
    return result
