"""A forced pass: filed for a running worker, else run in this process under the same locks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thermocline.catalog import requests
from thermocline.catalog.maintenance import forced_passes as maintenance_requests
from thermocline.core.names import TableName
from thermocline.core.policy.operations import parse_operations
from thermocline.errors import WaitedTooLong
from thermocline.maintain.format.plugins import load_formats
from thermocline.maintain.run_pass import PassRequest, render_pass, run_pass
from thermocline.maintain.targets import find_target
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.requests.wait import wait_for_result
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings


def wish_to_data(wish: PassRequest) -> dict[str, Any]:
    """What travels in the request."""
    given = {"where": wish.where, "engine": wish.engine, "ignore_pacing": wish.ignore_pacing}
    return {"operations": list(wish.operations), "beside": wish.may_run_concurrently, **given}


def wish_from_data(stored: Mapping[str, Any]) -> PassRequest:
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
    wish: PassRequest,
    report_progress: ProgressReporter = no_progress,
    local: bool = False,
    wait: bool = True,
    timeout_seconds: float = 120,
) -> dict[str, Any]:
    """Run a pass now; the report as data, or where the request stands when it is not waited for."""
    if not (local or wish.dry_run):
        with connect(dsn, autocommit=True, application_name="thermocline maintain") as conn:
            seen = find_target(conn, name)
            worker = requests.read_live_worker(conn)
            if worker is not None or not wait:
                request_id = maintenance_requests.file_forced_pass(conn, seen.owner, wish_to_data(wish))
                if not wait:
                    return {"table": seen.label, "request": request_id, "state": "pending"}
                report_progress(f"asking worker {worker}")
                return _await(conn, request_id, report_progress, timeout_seconds)
    return render_pass(
        run_pass(
            dsn,
            name,
            settings=settings,
            spark=lazy_spark_session(dsn, settings),
            wish=wish,
            report_progress=report_progress,
        )
    )


def _await(
    conn: Connection, request_id: int, report_progress: ProgressReporter, timeout_seconds: float
) -> dict[str, Any]:
    gone = "The table was removed while the request waited."
    result = wait_for_result(
        lambda: maintenance_requests.read_forced_pass(conn, request_id),
        report_progress,
        timeout_seconds,
        when_gone=gone,
    )
    if result is None:
        raise WaitedTooLong(
            f"The pass has not finished within {timeout_seconds:.0f} seconds; request {request_id} stays."
        )
    return result
