"""Maintenance, concurrent with the cycle: forced passes, passes that are due, and the health of every lake, in threads
of their own.

A pass may take hours, so it must not hold up tiering and folding; its connection is its own, and so is its lock. All of
it may run in any number of workers: whoever raises a table's next time runs its pass.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import psycopg
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from thermocline.catalog.maintenance import forced_passes as maintenance_requests
from thermocline.catalog.maintenance.forced_passes import ForcedPass
from thermocline.catalog.maintenance.lake_stats import read_stats
from thermocline.catalog.maintenance.passes import close_dead_passes
from thermocline.catalog.safety import Owner
from thermocline.errors import Paused, PostgresUnreachable, ThermoclineError
from thermocline.errors.maintenance import PassRunning
from thermocline.maintain.lake_health import collect_health
from thermocline.maintain.pass_requests import request_from_data
from thermocline.maintain.run_pass import PassReport, PassRequest, render_pass, run_pass_on
from thermocline.maintain.targets import find_owner
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings
from thermocline.worker.failures import render_failure

_LOG = logging.getLogger("thermocline.maintain")
_RECONNECT_SECONDS = 1.0
_LOOK_SECONDS = 1.0


class MaintenanceThreads:
    """The two threads of a worker: one runs passes, one looks at the health of the lakes."""

    def __init__(
        self, dsn: str, settings: Settings, spark: Callable[[], SparkSession], worker: str, stopping: threading.Event
    ) -> None:
        self.dsn = dsn
        self.settings = settings
        self.worker = worker
        self.stopping = stopping
        self.spark_ended = False
        self._spark = spark
        self._last_problem: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._keep, args=(work,), name=f"maintenance {name}", daemon=True)
            for name, work in (("passes", self._serve_passes), ("health", self._serve_health))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self, timeout_seconds: float) -> None:
        """Wait for a pass to reach its next bin; what is killed after that is resolved by the next pass."""
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def _keep(self, work: Callable[[Connection], None]) -> None:
        """Work on a connection, and on another one when that is lost."""
        while not self.stopping.is_set():
            try:
                with connect(self.dsn, autocommit=True, application_name="thermocline maintenance") as conn:
                    while not self.stopping.is_set():
                        work(conn)
            except (PostgresUnreachable, psycopg.OperationalError) as problem:
                self._complain("postgres", problem)
            except Py4JNetworkError:
                self.spark_ended = True
                self.stopping.set()
            except Exception as problem:
                _LOG.exception("maintenance stumbled: %s", problem, extra={"action": "maintain"})
            self.stopping.wait(_RECONNECT_SECONDS)

    def _serve_health(self, conn: Connection) -> None:
        collect_health(conn, self.settings)
        self.stopping.wait(self.settings.lake_stats_interval_seconds)

    def _serve_passes(self, conn: Connection) -> None:
        serve_forced(self, conn)
        serve_due(self, conn)
        self.stopping.wait(_LOOK_SECONDS)

    def run(
        self, conn: Connection, owner: Owner, request: PassRequest, report_progress: ProgressReporter = no_progress
    ) -> PassReport:
        """One pass, on this connection."""
        report = run_pass_on(
            conn,
            self.dsn,
            find_owner(conn, owner),
            settings=self.settings,
            spark=self._spark,
            request=request,
            worker=self.worker,
            report_progress=report_progress,
            is_stopping=self.stopping.is_set,
        )
        if report.status in ("done", "failed"):
            level = logging.ERROR if report.status == "failed" else logging.INFO
            _LOG.log(
                level, "%s: %s", report.table, report.sentence, extra={"action": "maintain", "table": report.table}
            )
        return report

    def _complain(self, what: str, problem: Exception | str) -> None:
        if self._last_problem.get(what) != str(problem):
            self._last_problem[what] = str(problem)
            _LOG.error("%s: %s", what, problem, extra={"action": "maintain"})


def serve_forced(threads: MaintenanceThreads, conn: Connection) -> int:
    """Run every forced pass that waits; how many were run."""
    maintenance_requests.tidy_forced_passes(conn)
    close_dead_passes(conn)
    ran = 0
    while not threads.stopping.is_set() and (forced := maintenance_requests.take_forced_pass(conn, threads.worker)):
        try:
            report = threads.run(
                conn, forced.owner, request_from_data(forced.request), _progress_reporter(conn, forced)
            )
        except PassRunning:
            maintenance_requests.give_back(conn, forced.id)
            break
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken or conn.closed:
                raise
            maintenance_requests.finish_forced_pass(conn, forced.id, "failed", render_failure(problem))
        else:
            maintenance_requests.finish_forced_pass(conn, forced.id, "done", render_pass(report))
        ran += 1
    return ran


def serve_due(threads: MaintenanceThreads, conn: Connection) -> int:
    """Run the passes that are due, those that gain most per byte first; forced ones come in between. How many were
    run."""
    interval = threads.settings.maintenance_interval_seconds
    maintenance_requests.schedule_new_tables(conn, interval)
    ran = 0
    for owner in sorted(maintenance_requests.read_due(conn), key=lambda owner: -_gain(conn, owner)):
        if threads.stopping.is_set():
            break
        if not maintenance_requests.claim_due(conn, owner, interval):
            continue
        try:
            threads.run(conn, owner, PassRequest(forced=False))
            ran += 1
        except (PassRunning, Paused):
            continue
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken or conn.closed:
                raise
            _LOG.error("a pass could not start: %s", problem, extra={"action": "maintain"})
        serve_forced(threads, conn)
    return ran


def _gain(conn: Connection, owner: Owner) -> float:
    seen = read_stats(conn, owner)
    return float(seen.stats.get("gain_per_mb") or 0) if seen else 0.0


def _progress_reporter(conn: Connection, forced: ForcedPass) -> ProgressReporter:
    return lambda told: maintenance_requests.note_forced_progress(conn, forced.id, told)
