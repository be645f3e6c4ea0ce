"""The worker's loop: a cycle over every registered table, requests in between, until a stop is requested.

One failing table does not stop the others; a failure is logged once per change of its cause. When Postgres is
unreachable, the worker waits.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import threading
import time
from types import FrameType

import psycopg
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from thermocline.catalog import requests, tables
from thermocline.catalog.health import workers
from thermocline.catalog.pauses import note_cycle, note_success
from thermocline.catalog.pins import sweep_pins
from thermocline.catalog.tables import RegisteredTable
from thermocline.errors import (
    AnotherWriter,
    CycleFailed,
    LockNotGranted,
    PartitionGone,
    Paused,
    PostgresUnreachable,
    SchemaNotFollowed,
    SparkEnded,
    ThermoclineError,
)
from thermocline.maintain.janitor import grace_by_policy, remove_leftover_lakes, remove_stray_files
from thermocline.ops.admin.statistics import refresh_statistics
from thermocline.ops.fold import fold, note_fold_work
from thermocline.ops.requests.execute import execute_request, render_report
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tiering import tier
from thermocline.ops.verify.background import verify_next_range
from thermocline.runtime.pg import Connection, connect, postgres_failed
from thermocline.runtime.progress import ProgressReporter
from thermocline.runtime.settings import Settings
from thermocline.worker.failures import render_failure
from thermocline.worker.maintenance import MaintenanceThreads

_LOG = logging.getLogger("thermocline.worker")
_RECONNECT_SECONDS = 1.0
_STOP_SECONDS = 5.0
_BEAT_SECONDS = 5.0
_STATISTICS_RETRY_SECONDS = 300.0
_LEFTOVERS_RETRY_SECONDS = 600.0


class Worker:
    """One worker process: its name, its settings, and the last problem that it logged of each table."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.dsn = dsn
        self.settings = settings
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self.stopping = threading.Event()
        self._spark = lazy_spark_session(dsn, settings)
        self._last_problem: dict[str, str] = {}
        self._unpurged_since: dict[int, float] = {}
        self._delayed_since: dict[int, float] = {}
        self._statistics_due: dict[int, float] = {}
        self._leftovers_due = 0.0

    def keep_beating(self) -> None:
        """Send heartbeats while a cycle keeps the main thread busy; for a thread of its own."""
        while not self.stopping.is_set():
            try:
                with connect(self.dsn, autocommit=True, application_name="thermocline heartbeat") as conn:
                    while not self.stopping.wait(_BEAT_SECONDS):
                        workers.touch(conn, self.name)
            except (PostgresUnreachable, psycopg.OperationalError):
                self.stopping.wait(_BEAT_SECONDS)

    def stop(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        self.stopping.set()

    def run(self) -> None:
        """Run cycles until a stop is requested."""
        while not self.stopping.is_set():
            try:
                with connect(self.dsn, autocommit=True, application_name=requests.WORKER_APPLICATION) as conn:
                    conn.execute("listen thermocline_requests")
                    self._serve(conn)
                    requests.leave(conn, self.name)
            except (PostgresUnreachable, psycopg.OperationalError) as problem:
                self._log_problem("postgres", problem)
                self.stopping.wait(_RECONNECT_SECONDS)

    def _serve(self, conn: Connection) -> None:
        next_cycle = 0.0
        while not self.stopping.is_set():
            requests.beat(conn, self.name)
            requests.tidy(conn)
            self._serve_requests(conn)
            if time.monotonic() >= next_cycle:
                workers.note_cycle_started(conn, self.name)
                self.run_cycle(conn)
                if not self.stopping.is_set():
                    workers.note_cycle_finished(conn, self.name)
                next_cycle = time.monotonic() + self.settings.cycle_interval_seconds
            for _ in conn.notifies(timeout=min(1.0, self.settings.cycle_interval_seconds), stop_after=1):
                pass

    def run_cycle(self, conn: Connection) -> bool:
        """One cycle over every table; whether all of them succeeded."""
        all_succeeded = True
        for table in tables.read_tables(conn):
            if self.stopping.is_set():
                break
            try:
                report = tier(
                    self.dsn,
                    table.name,
                    settings=self.settings,
                    spark=self.session,
                    worker=self.name,
                    by_itself=True,
                )
                if report.op_id is None:  # one lake commit per table and cycle
                    self._fold(conn, table)
            except (AnotherWriter, Paused):
                continue
            except (ThermoclineError, psycopg.Error) as problem:
                if isinstance(problem, psycopg.OperationalError) and conn.broken:
                    raise
                if self._is_delay(table, problem):
                    note_cycle(conn, table.id, "waits for others", deferred=[str(problem)])
                    all_succeeded = self._fold_alone(conn, table) and all_succeeded
                    continue
                all_succeeded = False
                failure = problem if isinstance(problem, ThermoclineError) else postgres_failed(problem)
                self._log_problem(str(table.name), failure)
                note_cycle(conn, table.id, str(failure), problem_code=failure.code)
                continue
            self._last_problem.pop(str(table.name), None)
            self._delayed_since.pop(table.id, None)
            note_success(conn, table.id)
            self._refresh_statistics(conn, table)
            if report.moved or report.dropped:
                _LOG.info(report.sentence, extra={"action": "tier", "table": report.table, "op_id": report.op_id})
        if swept := sweep_pins(conn):
            _LOG.info("removed %d pins that had expired", swept, extra={"action": "pins"})
        self._verify_next_range(conn)
        return self._delete_leftovers(conn) and all_succeeded

    def _delete_leftovers(self, conn: Connection) -> bool:
        """Delete files that no commit took and lakes that no table has; a copied database deletes nothing. A refusal is
        tried again later."""
        if time.monotonic() < self._leftovers_due:
            return True
        try:
            if removed := remove_stray_files(conn, grace_by_policy(conn, self.settings)):
                _LOG.info("deleted %d files that no commit took", removed, extra={"action": "janitor"})
            if removed := remove_leftover_lakes(conn, self.settings.staged_grace_seconds):
                _LOG.info("deleted %d lakes that no table has", removed, extra={"action": "janitor"})
        except ThermoclineError as refusal:
            self._log_problem("janitor", refusal)
            self._leftovers_due = time.monotonic() + _LEFTOVERS_RETRY_SECONDS
            return False
        self._last_problem.pop("janitor", None)
        return True

    def _verify_next_range(self, conn: Connection) -> None:
        """Compare one range of one table; a difference is logged and stops nothing."""
        try:
            verified = verify_next_range(conn, self.dsn, self.settings.verify_interval_seconds)
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken:
                raise
            self._log_problem("verify", problem)
            return
        self._last_problem.pop("verify", None)
        if verified is not None and verified.verdict.problem:
            self._log_problem(f"verify of {verified.table}", verified.sentence)

    def _refresh_statistics(self, conn: Connection, table: RegisteredTable) -> None:
        """Refresh the planner's statistics of the lake; a failure (no gateway, for example) is tried again later and
        delays nothing else."""
        if time.monotonic() < self._statistics_due.get(table.id, 0.0):
            return
        try:
            statistics = refresh_statistics(conn, table, self.settings)
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken:
                raise
            self._statistics_due[table.id] = time.monotonic() + _STATISTICS_RETRY_SECONDS
            self._log_problem(f"statistics of {table.name}", problem)
            return
        self._last_problem.pop(f"statistics of {table.name}", None)
        if statistics is not None:
            _LOG.info(
                "%s: the planner's statistics count %d rows in the lake",
                table.name,
                statistics.rows,
                extra={"action": "statistics", "table": str(table.name)},
            )

    def _fold(self, conn: Connection, table: RegisteredTable) -> None:
        """Fold when enough corrections wait, or when some have waited long enough; purge what an earlier fold left."""
        work = note_fold_work(conn, table)
        is_due = work.waiting and (
            work.waiting >= self.settings.fold_min_rows or work.waiting_seconds >= self.settings.fold_interval_seconds
        )
        if not is_due and not self._is_purge_due(table, work.unpurged):
            return
        report = fold(self.dsn, table.name, settings=self.settings, spark=self.session, worker=self.name, drain=False)
        self._unpurged_since.pop(table.id, None)
        if report.commits:
            _LOG.info(report.sentence, extra={"action": "fold", "table": report.table, "op_id": report.op_id})

    def _is_delay(self, table: RegisteredTable, problem: Exception) -> bool:
        """Whether somebody uses the table for a while, so that nothing failed and the next cycle tries again; not when
        that lasts."""
        if not isinstance(problem, LockNotGranted | SchemaNotFollowed | PartitionGone):
            return False
        since = self._delayed_since.setdefault(table.id, time.monotonic())
        return time.monotonic() - since <= self.settings.cycle_late_seconds

    def _fold_alone(self, conn: Connection, table: RegisteredTable) -> bool:
        """Fold in a cycle whose tiering was delayed; whether that did not fail. A fold that is delayed, too, is tried
        in the next one."""
        try:
            self._fold(conn, table)
        except (AnotherWriter, Paused, LockNotGranted, SchemaNotFollowed, PartitionGone):
            return True
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken:
                raise
            failure = problem if isinstance(problem, ThermoclineError) else postgres_failed(problem)
            self._log_problem(str(table.name), failure)
            note_cycle(conn, table.id, str(failure), problem_code=failure.code)
            return False
        return True

    def _is_purge_due(self, table: RegisteredTable, unpurged: int) -> bool:
        """Whether marks of earlier folds are to be purged: a transaction that was open before may have ended."""
        if not unpurged:
            self._unpurged_since.pop(table.id, None)
            return False
        since = self._unpurged_since.setdefault(table.id, time.monotonic())
        return time.monotonic() - since >= self.settings.fold_interval_seconds

    def _serve_requests(self, conn: Connection) -> None:
        names = {table.id: table.name for table in tables.read_tables(conn)}
        while not self.stopping.is_set() and (request := requests.take_request(conn, self.name)):
            try:
                report = execute_request(
                    request.verb,
                    self.dsn,
                    names[request.table_id],
                    settings=self.settings,
                    spark=self.session,
                    worker=self.name,
                    report_progress=self._progress_writer(conn, request.id),
                )
            except (ThermoclineError, psycopg.Error) as problem:
                requests.finish_request(conn, request.id, "failed", render_failure(problem))
            else:
                requests.finish_request(conn, request.id, "done", render_report(report))
                _LOG.info(report.sentence, extra={"action": request.verb, "table": report.table, "op_id": report.op_id})

    def _progress_writer(self, conn: Connection, request_id: int) -> ProgressReporter:
        return lambda told: requests.note_progress(conn, request_id, told)

    def session(self) -> SparkSession:
        return self._spark()

    def _log_problem(self, what: str, problem: Exception | str) -> None:
        if self._last_problem.get(what) != str(problem):
            self._last_problem[what] = str(problem)
            _LOG.error("%s: %s", what, problem, extra={"action": "cycle"})


def run_worker(settings: Settings, *, once: bool = False) -> None:
    """Run until SIGTERM or SIGINT; with `once` run one cycle and fail when a table failed."""
    assert settings.dsn is not None
    worker = Worker(settings.dsn, settings)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, worker.stop)
    try:
        if not once:
            maintenance = MaintenanceThreads(settings.dsn, settings, worker.session, worker.name, worker.stopping)
            maintenance.start()
            threading.Thread(target=worker.keep_beating, name="heartbeat", daemon=True).start()
            worker.run()
            maintenance.join(_STOP_SECONDS)
            if maintenance.spark_ended:
                raise Py4JNetworkError("Spark ended during a maintenance pass")
            return
        with connect(settings.dsn, autocommit=True, application_name=requests.WORKER_APPLICATION) as conn:
            if not worker.run_cycle(conn):
                raise CycleFailed
    except Py4JNetworkError as problem:
        raise SparkEnded from problem
