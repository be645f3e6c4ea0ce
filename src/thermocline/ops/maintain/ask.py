"""A forced pass: filed for a running worker, else run in this process under the same locks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from thermocline.catalog import maintenance_requests, requests
from thermocline.catalog.requests import RequestState
from thermocline.core.maintenance.operations import parse_operations
from thermocline.core.names import TableName
from thermocline.errors import RemoteFailure
from thermocline.maintenance_errors import StillWaiting
from thermocline.ops.maintain.run import PassWish, render_pass, run_pass
from thermocline.ops.maintain.targets import find_target
from thermocline.ops.sessions import spark_source
from thermocline.pg import Connection, connect
from thermocline.settings import Settings

_POLL_SECONDS = 0.2


def wish_to_data(wish: PassWish) -> dict[str, Any]:
    """What travels in the request."""
    given = {"where": wish.where, "engine": wish.engine, "ignore_pacing": wish.ignore_pacing}
    return {"operations": list(wish.operations), **given}


def wish_from_data(stored: Mapping[str, Any]) -> PassWish:
    return PassWish(
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
    wish: PassWish,
    talk: Callable[[str], None] = lambda _: None,
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
                talk(f"asking worker {worker}")
                return _await(conn, request_id, talk, timeout_seconds)
    return render_pass(run_pass(dsn, name, settings=settings, spark=spark_source(dsn, settings), wish=wish, talk=talk))


def _await(conn: Connection, request_id: int, talk: Callable[[str], None], timeout_seconds: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_seconds
    last = None
    while time.monotonic() < deadline:
        seen = maintenance_requests.read_forced_pass(conn, request_id)
        if seen is None:
            raise RemoteFailure("The table was removed while the request waited.")
        if seen.progress and seen.progress != last:
            last = seen.progress
            talk(last)
        if (result := _result(seen)) is not None:
            return result
        time.sleep(_POLL_SECONDS)
    raise StillWaiting(f"The pass has not finished within {timeout_seconds:.0f} seconds; request {request_id} stays.")


def _result(seen: RequestState) -> dict[str, Any] | None:
    if seen.state == "done" and seen.result is not None:
        return seen.result
    if seen.state == "failed" and seen.result is not None:
        failure = RemoteFailure(str(seen.result.get("message")), hint=str(seen.result.get("hint", "")))
        failure.code = str(seen.result.get("code", failure.code))
        failure.exit_code = int(seen.result.get("exit_code", 1))
        raise failure
    return None
