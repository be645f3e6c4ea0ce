"""A pass: one maintenance run over one table.

    find the table → resolve the policy, once → lock, write the started row → each operation in order → close the row

An operation that fails does not stop the next. A refusal or a skip is an outcome with its sentence; an exception
becomes a failure.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

from thermocline.catalog.maintenance import passes
from thermocline.catalog.maintenance.forced_passes import note_schedule
from thermocline.catalog.pauses import read_paused_since
from thermocline.catalog.tables import insert_event
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.maintenance.pacing import next_pass_after_ms
from thermocline.core.maintenance.plan import PassPlan, PlannedOperation, pass_plan_to_json
from thermocline.core.maintenance.record import PassStatus, checked, counters_to_keep, error_of, sentence_of, status_of
from thermocline.core.messages.progress import Progress
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.operations import DISABLED, check_operations, is_enabled, plan_operations
from thermocline.core.policy.policy_layers import policy_record
from thermocline.errors import Paused, ThermoclineError
from thermocline.maintain.context import PassContext
from thermocline.maintain.context import PassRequest as PassRequest
from thermocline.maintain.engines.engine import MaintenanceEngine
from thermocline.maintain.format.formats import LakeFormat, Target
from thermocline.maintain.format.plugins import plugin_named
from thermocline.maintain.pacing import NoPacing, Pacing, pacing_of
from thermocline.maintain.plans.planning import Planner
from thermocline.maintain.run_operation import run_operation
from thermocline.maintain.targets import find_target, read_resolved_policy
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings

_LOG = logging.getLogger("thermocline.maintain")
STOPPING = "paused: the worker stops, resumes with the next pass"
MAINTENANCE_DISABLED = "maintenance is disabled for this table"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport:
    """The outcome of a pass; `results` are the counters under their full keys."""

    table: str
    status: PassStatus
    sentence: str
    outcomes: tuple[Outcome, ...]
    results: dict[str, int]
    policy: dict[str, Any]
    bounds: dict[str, Any] | None
    engine: str
    pass_id: str | None
    dry_run: bool
    started_at: datetime
    seconds: float
    warnings: tuple[str, ...] = ()
    plan: PassPlan | None = None
    """What a dry run planned."""


def render_pass(report: PassReport) -> dict[str, Any]:
    """The report as data."""
    plan = None if report.plan is None else pass_plan_to_json(report.plan)
    return {**asdict(report), "started_at": report.started_at.isoformat(), "plan": plan}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A running pass."""

    context: PassContext
    seen: Target
    request: PassRequest
    pacing: Pacing | NoPacing
    engine: MaintenanceEngine
    planner: Planner
    plugin: LakeFormat

    @property
    def format(self) -> Format:
        return self.plugin.format


def run_pass(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    request: PassRequest,
    worker: str = "local",
    report_progress: ProgressReporter = no_progress,
    engine: MaintenanceEngine | None = None,
    planner: Planner | None = None,
) -> PassReport:
    """Run one pass over one table, in this process; by another engine or planner than the settings name when one is
    given."""
    with connect(dsn, autocommit=True, application_name="thermocline maintain") as conn:
        seen = find_target(conn, name)
        return run_pass_on(
            conn,
            dsn,
            seen,
            settings=settings,
            spark=spark,
            request=request,
            worker=worker,
            report_progress=report_progress,
            engine=engine,
            planner=planner,
        )


def run_pass_on(
    conn: Connection,
    dsn: str,
    seen: Target,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    request: PassRequest,
    worker: str,
    report_progress: ProgressReporter,
    engine: MaintenanceEngine | None = None,
    planner: Planner | None = None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> PassReport:
    """Run one pass over a table that was found; `conn` is in autocommit mode and holds the pass's lock meanwhile."""
    resolved = read_resolved_policy(conn, seen, settings)
    policy = resolved.policy if request.where is None else replace(resolved.policy, where=request.where)
    check_operations(policy, seen.format, request.operations)
    plugin = plugin_named(seen.format.name)
    measured_on = seen.metadata_location if seen.format is ICEBERG else None
    pacing = pacing_of(policy, settings, measured_on, ignore=request.ignore_pacing or request.dry_run)
    context = PassContext(
        conn=conn,
        dsn=dsn,
        spark=spark,
        settings=settings,
        target=seen.target,
        policy=policy,
        now=_read_clock(conn),
        worker=worker,
        dry_run=request.dry_run,
        forced=request.forced,
        may_run_concurrently=request.may_run_concurrently,
        report_progress=report_progress,
        why_pause=lambda: STOPPING if is_stopping() else _why_paused(conn, seen) or pacing.why_pause(),
        pace=pacing.pace,
    )
    engine = engine or plugin.engine(request.engine or settings.maintenance_engine)
    planner = planner or partial(plugin.plan, engine=engine.name)
    run = _Run(
        context=context, seen=seen, request=request, pacing=pacing, engine=engine, planner=planner, plugin=plugin
    )
    if request.dry_run or (not request.forced and not policy.maintenance_enabled):
        return _run_unrecorded(run, resolved.warnings)
    if (reason := _why_paused(conn, seen)) is not None:
        raise Paused(f"{reason}.")
    check_lakes_match_journal(conn)
    with passes.pass_lock(conn, seen.owner, seen.label, concurrent=request.may_run_concurrently):
        return _run_recorded(run, resolved.warnings)


def _why_paused(conn: Connection, seen: Target) -> str | None:
    """Why the table is paused, or None. A lake table that is not registered is paused only with all tables."""
    since = read_paused_since(conn, seen.owner.table_id)
    return None if since is None else f"{seen.label} is paused since {since:%Y-%m-%d %H:%M:%S}; nothing of it moves"


def _run_unrecorded(run: _Run, warnings: tuple[str, ...]) -> PassReport:
    """A dry run, or a scheduled pass of a table that is not maintained."""
    if not run.request.dry_run:
        return _report(run, (), warnings, bounds=None, seconds=0)
    kept: list[Bounds] = []
    started = time.monotonic()
    outcomes = _run_operations(replace(run, context=replace(run.context, note_bounds=kept.append)))
    return _report(run, outcomes, warnings, bounds=kept[-1] if kept else None, seconds=time.monotonic() - started)


def _run_recorded(run: _Run, warnings: tuple[str, ...]) -> PassReport:
    """A pass with its row in the journal, under the table's lock."""
    conn, seen, request, started = run.context.conn, run.seen, run.request, time.monotonic()
    kept: list[Bounds] = []
    record = policy_record(run.context.policy, run.format)
    pass_id = passes.begin_pass(
        conn,
        seen.owner,
        worker=run.context.worker,
        forced=request.forced,
        policy=record,
        base=seen.snapshot,
        concurrent=request.may_run_concurrently,
    )

    def note_bounds(bounds: Bounds) -> None:
        kept.append(bounds)
        passes.note_bounds(conn, pass_id, bounds)

    def report_progress(told: str | Progress) -> None:
        passes.note_progress(conn, pass_id, str(told))
        run.context.report_progress(told)

    outcomes = _run_operations(
        replace(
            run, context=replace(run.context, pass_id=pass_id, note_bounds=note_bounds, report_progress=report_progress)
        )
    )
    sentence = sentence_of(outcomes, request.operations, run.format.operations)
    counters = counters_to_keep(outcomes, run.format.totals)
    passes.finish_pass(conn, pass_id, outcomes, counters=counters, sentence=sentence, error=error_of(outcomes))
    if request.forced or status_of(outcomes) in ("done", "failed"):
        insert_event(conn, seen.owner.table_id, "maintain", f"{seen.label}: {sentence}.")
    pause = next((outcome.sentence for outcome in outcomes if outcome.status == "paused"), None)
    note_schedule(conn, seen.owner, pause, _read_next(run, outcomes, is_paused=pause is not None))
    passes.prune_passes(conn, seen.owner, run.context.policy.op_log_retention_days)
    bounds = kept[-1] if kept else None
    return _report(run, outcomes, warnings, bounds=bounds, seconds=time.monotonic() - started, pass_id=pass_id)


def _read_next(run: _Run, outcomes: Sequence[Outcome], *, is_paused: bool) -> datetime | None:
    """When the next pass is due: at the end of a pause, or by the interval of a continuous table. None: as
    scheduled."""
    if is_paused and run.pacing.resumes_at is not None:
        return run.pacing.resumes_at
    wait_ms = next_pass_after_ms(run.context.policy, any(outcome.status == "done" for outcome in outcomes))
    return None if wait_ms is None else _read_clock(run.context.conn) + timedelta(milliseconds=wait_ms)


def _run_operations(run: _Run) -> tuple[Outcome, ...]:
    """Run each operation in the preset's order; a failure does not stop the next."""
    outcomes: list[Outcome] = []
    for operation in plan_operations(
        run.context.policy, run.request.operations, run.format.operations, run.format.orders
    ):
        started = time.monotonic()
        outcome = _run_operation(run, operation)
        duration_ms = round((time.monotonic() - started) * 1000)
        outcomes.append(
            outcome
            if outcome.status in ("disabled", "paused") or run.request.dry_run
            else checked(outcome, duration_ms)
        )
    return tuple(outcomes)


def _run_operation(run: _Run, operation: Operation) -> Outcome:
    context, seen = run.context, run.seen
    if not is_enabled(context.policy, operation, run.format.operations):
        return Outcome(operation=operation, status="disabled", sentence=DISABLED)
    spec = run.format.operation(operation)
    is_paced = spec is not None and spec.is_paced
    if not context.dry_run and (pause := context.why_pause() if is_paced else _why_paused(context.conn, seen)):
        return Outcome(operation=operation, status="paused", sentence=pause)
    if operation not in run.request.operations and (
        wait := run.plugin.why_not_yet(operation, context, _last_done(run, operation))
    ):
        return Outcome(operation=operation, status="skipped", sentence=wait)
    context.report_progress(f"{operation}: starting")
    try:
        return run_operation(operation, context, run.planner, run.engine)
    except Py4JJavaError as problem:
        return Outcome(
            operation=operation, status="failed", sentence=f"Spark: {str(problem.java_exception).splitlines()[0]}"
        )
    except Py4JNetworkError:
        raise  # Spark has stopped, so the next operation would fail too
    except Exception as problem:  # any other failure does not stop the next operation
        if context.conn.closed or context.conn.broken:
            raise
        if not isinstance(problem, ThermoclineError | psycopg.Error):
            _LOG.exception("%s of %s failed", operation, seen.label, extra={"action": "maintain", "table": seen.label})
        hint = problem.hint if isinstance(problem, ThermoclineError) else None
        return Outcome(
            operation=operation, status="failed", sentence=_first_line(problem), details=(hint,) if hint else ()
        )


def _last_done(run: _Run, operation: Operation) -> Callable[[], datetime | None]:
    return lambda: passes.read_last_done(run.context.conn, run.seen.owner, operation)


def _first_line(problem: Exception) -> str:
    text = str(problem).strip()
    return text.splitlines()[0].rstrip(".") if text else type(problem).__name__


def _read_clock(conn: Connection) -> datetime:
    row = conn.execute("select clock_timestamp()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now


def _report(
    run: _Run,
    outcomes: tuple[Outcome, ...],
    warnings: tuple[str, ...],
    *,
    bounds: Bounds | None,
    seconds: float,
    pass_id: uuid.UUID | None = None,
) -> PassReport:
    return PassReport(
        table=run.seen.label,
        status=status_of(outcomes) if outcomes else "disabled",
        sentence=sentence_of(outcomes, run.request.operations, run.format.operations)
        if outcomes
        else MAINTENANCE_DISABLED,
        outcomes=outcomes,
        results=counters_to_keep(outcomes, run.format.totals),
        policy=policy_record(run.context.policy, run.format),
        bounds=None if bounds is None else passes.bounds_record(bounds),
        engine=run.engine.name,
        pass_id=None if pass_id is None else str(pass_id),
        dry_run=run.request.dry_run,
        started_at=run.context.now,
        seconds=round(seconds, 3),
        warnings=warnings,
        plan=_plan(run, outcomes, bounds) if run.request.dry_run else None,
    )


def _plan(run: _Run, outcomes: tuple[Outcome, ...], bounds: Bounds | None) -> PassPlan:
    """The pass as data: what each operation would do, by which settings, within which bounds."""
    return PassPlan(
        table=run.seen.label,
        lake=str(run.seen.target.name),
        metadata_location=run.seen.metadata_location,
        snapshot=run.seen.snapshot,
        engine=run.engine.name,
        settings=policy_record(run.context.policy, run.format),
        bounds=None if bounds is None else passes.bounds_record(bounds),
        operations=tuple(
            PlannedOperation(
                operation=outcome.operation,
                will_run=outcome.will_run,
                sentence=outcome.sentence,
                steps=outcome.details,
            )
            for outcome in outcomes
        ),
    )
