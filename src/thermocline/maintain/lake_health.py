"""Measure the health of every lake table, maintained or not. A warning is logged when it appears and when it is
resolved."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from thermocline.catalog.maintenance.forced_passes import read_schedule
from thermocline.catalog.maintenance.lake_stats import (
    NewStats,
    read_orphan_estimate,
    read_stats,
    read_trend,
    write_stats,
)
from thermocline.catalog.maintenance.lake_tables import Maintained, read_maintained
from thermocline.catalog.maintenance.passes import OperationStatus, PassLine, read_last_passes, read_statuses
from thermocline.core.maintenance.health import render_warnings
from thermocline.core.names import TableName
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.policy_layers import policy_record
from thermocline.errors import ThermoclineError
from thermocline.maintain.format.plugins import plugin_named
from thermocline.maintain.targets import find_target, read_resolved_policy, target_of
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.settings import Settings

_LOG = logging.getLogger("thermocline.health")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The health of a lake as `show` prints it; the figures are those of `lake_stats`."""

    table: str
    stats: Mapping[str, Any]
    warnings: tuple[str, ...]
    problem: str | None
    checked_at: datetime | None
    created_per_hour: float
    removed_per_hour: float
    next_pass: datetime | None
    state: str | None
    operations: tuple[OperationStatus, ...]
    passes: tuple[PassLine, ...]


def collect_health(conn: Connection, settings: Settings) -> int:
    """Measure every table; the number measured. A table that cannot be read is recorded, and the others are still
    measured."""
    health = 0
    for maintained in read_maintained(conn):
        try:
            look_at(conn, maintained, settings)
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken or conn.closed:
                raise
            _note_problem(conn, maintained, problem)
        health += 1
    return health


def look_at(conn: Connection, maintained: Maintained, settings: Settings) -> None:
    """Measure one table. For a version that was measured before, no manifest is read."""
    stored = read_stats(conn, maintained.owner)
    target = target_of(conn, maintained)
    resolved = read_resolved_policy(conn, target, settings)
    record = policy_record(resolved.policy, target.format)
    if (
        stored is not None
        and stored.metadata_location == target.metadata_location
        and stored.policy == record
        and stored.problem is None
    ):
        estimate = {"orphan_estimate": read_orphan_estimate(conn, maintained.owner)} if target.format is ICEBERG else {}
        kept = {**stored.stats, **estimate}
        unchanged = NewStats(
            metadata_location=stored.metadata_location, stats=kept, warnings=stored.warnings, policy=record
        )
        write_stats(conn, maintained.owner, unchanged, stored)
        return
    health = plugin_named(target.format.name).measure_health(conn, target, resolved.policy, stored)
    warnings = {**health.warnings, **{f"policy {at}": sentence for at, sentence in enumerate(resolved.warnings)}}
    kept_warnings = _log_changes(maintained.label, stored.warnings if stored else {}, warnings)
    new = NewStats(
        metadata_location=target.metadata_location, stats=health.figures, warnings=kept_warnings, policy=record
    )
    write_stats(conn, maintained.owner, new, stored)


def _log_changes(
    label: str, before: Mapping[str, Mapping[str, Any]], found: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Log new and resolved warnings; each warning keeps the time since which it holds."""
    now = datetime.now(UTC).isoformat()
    kept: dict[str, dict[str, Any]] = {}
    for key, sentence in found.items():
        if key not in before:
            _LOG.warning("%s: %s", label, sentence, extra={"action": "health", "table": label})
        kept[key] = {"key": key, "sentence": sentence, "since": before[key]["since"] if key in before else now}
    for key, old in before.items():
        if key not in found:
            _LOG.info("%s: no longer: %s", label, old["sentence"], extra={"action": "health", "table": label})
    return kept


def _note_problem(conn: Connection, maintained: Maintained, problem: Exception) -> None:
    stored = read_stats(conn, maintained.owner)
    sentence = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    if stored is None or stored.problem != sentence:
        _LOG.warning(
            "%s: its health cannot be read: %s",
            maintained.label,
            problem if isinstance(problem, ThermoclineError) else sentence,
            extra={"action": "health", "table": maintained.label},
        )
    location = stored.metadata_location if stored else maintained.metadata_location
    stats, warnings, policy = (stored.stats, stored.warnings, stored.policy) if stored else ({}, {}, {})
    write_stats(
        conn,
        maintained.owner,
        NewStats(metadata_location=location, stats=stats, warnings=warnings, policy=policy, problem=sentence),
        stored,
    )


def read_health(dsn: str, name: TableName, settings: Settings) -> HealthReport:
    """Measure and return the health of one table."""
    with connect(dsn, autocommit=True, application_name="thermocline show") as conn:
        target = find_target(conn, name)
        maintained = next(found for found in read_maintained(conn) if found.owner == target.owner)
        try:
            look_at(conn, maintained, settings)
        except ThermoclineError as problem:
            _note_problem(conn, maintained, problem)
        stored = read_stats(conn, target.owner)
        resolved = read_resolved_policy(conn, target, settings)
        created, removed = read_trend(conn, target.owner)
        next_pass, state = read_schedule(conn, target.owner)
        persistent = timedelta(seconds=settings.maintenance_interval_seconds)
        return HealthReport(
            table=target.label,
            stats=stored.stats if stored else {},
            warnings=tuple(render_warnings(stored.warnings, resolved.policy, datetime.now(UTC), persistent))
            if stored
            else (),
            problem=stored.problem if stored else None,
            checked_at=stored.checked_at if stored else None,
            created_per_hour=created,
            removed_per_hour=removed,
            next_pass=next_pass,
            state=state,
            operations=read_statuses(conn, target.owner),
            passes=read_last_passes(conn, target.owner),
        )
