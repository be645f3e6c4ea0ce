"""Looking at the health of every lake table, maintained or not; a warning is logged once when it comes and once when it
goes."""

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
    """What `show` tells of a lake; figures are those of `lake_stats`."""

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
    """Look at every table; how many were looked at. One that cannot be read is noted and does not end the round."""
    looked = 0
    for one in read_maintained(conn):
        try:
            look_at(conn, one, settings)
        except (ThermoclineError, psycopg.Error) as problem:
            if conn.broken or conn.closed:
                raise
            _note_problem(conn, one, problem)
        looked += 1
    return looked


def look_at(conn: Connection, one: Maintained, settings: Settings) -> None:
    """One table. A version that was looked at before costs no read of a manifest."""
    seen = read_stats(conn, one.owner)
    target = target_of(conn, one)
    resolved = read_resolved_policy(conn, target, settings)
    record = policy_record(resolved.policy, target.format)
    if (
        seen is not None
        and seen.metadata_location == target.metadata_location
        and seen.policy == record
        and seen.problem is None
    ):
        estimate = {"orphan_estimate": read_orphan_estimate(conn, one.owner)} if target.format is ICEBERG else {}
        kept = {**seen.stats, **estimate}
        unchanged = NewStats(
            metadata_location=seen.metadata_location, stats=kept, warnings=seen.warnings, policy=record
        )
        write_stats(conn, one.owner, unchanged, seen)
        return
    looked = plugin_named(target.format.name).measure_health(conn, target, resolved.policy, seen)
    warnings = {**looked.warnings, **{f"policy {at}": told for at, told in enumerate(resolved.warnings)}}
    kept_warnings = _tell_changes(one.label, seen.warnings if seen else {}, warnings)
    new = NewStats(
        metadata_location=target.metadata_location, stats=looked.figures, warnings=kept_warnings, policy=record
    )
    write_stats(conn, one.owner, new, seen)


def _tell_changes(
    label: str, before: Mapping[str, Mapping[str, Any]], found: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Log what is new and what is over; since when each warning holds is kept."""
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


def _note_problem(conn: Connection, one: Maintained, problem: Exception) -> None:
    seen = read_stats(conn, one.owner)
    told = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    if seen is None or seen.problem != told:
        _LOG.warning(
            "%s: its health cannot be read: %s", one.label, told, extra={"action": "health", "table": one.label}
        )
    location = seen.metadata_location if seen else one.metadata_location
    stats, warnings, policy = (seen.stats, seen.warnings, seen.policy) if seen else ({}, {}, {})
    write_stats(
        conn,
        one.owner,
        NewStats(metadata_location=location, stats=stats, warnings=warnings, policy=policy, problem=told),
        seen,
    )


def read_health(dsn: str, name: TableName, settings: Settings) -> HealthReport:
    """The health of one table, looked at now."""
    with connect(dsn, autocommit=True, application_name="thermocline show") as conn:
        target = find_target(conn, name)
        one = next(found for found in read_maintained(conn) if found.owner == target.owner)
        try:
            look_at(conn, one, settings)
        except ThermoclineError as problem:
            _note_problem(conn, one, problem)
        seen = read_stats(conn, target.owner)
        resolved = read_resolved_policy(conn, target, settings)
        created, removed = read_trend(conn, target.owner)
        next_pass, state = read_schedule(conn, target.owner)
        persistent = timedelta(seconds=settings.maintenance_interval_seconds)
        return HealthReport(
            table=target.label,
            stats=seen.stats if seen else {},
            warnings=tuple(render_warnings(seen.warnings, resolved.policy, datetime.now(UTC), persistent))
            if seen
            else (),
            problem=seen.problem if seen else None,
            checked_at=seen.checked_at if seen else None,
            created_per_hour=created,
            removed_per_hour=removed,
            next_pass=next_pass,
            state=state,
            operations=read_statuses(conn, target.owner),
            passes=read_last_passes(conn, target.owner),
        )
