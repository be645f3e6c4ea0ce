"""Looks at everything Thermocline needs and says, for each failure, what to do. Leaves everything as it was.

The conditions under which a stack does its work are declared in `core/health/health_conditions.py`. Here is what only a
person at a terminal wants to know besides: the machine, the settings of Postgres, rights, clocks, leftovers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from thermocline.core.health.finding import Finding, Verdict, red, verdict_on
from thermocline.core.health.health_conditions import judge_health
from thermocline.errors import ThermoclineError
from thermocline.ops.doctor.server_settings import judge_settings, read_settings_seen
from thermocline.ops.doctor.worker_rights import judge_rights, read_missing_rights
from thermocline.ops.health.observer import HealthObserver
from thermocline.runtime import artifacts, pg
from thermocline.runtime.settings import Settings
from thermocline.seam.objects import CAPTURE_TRIGGER

CLOCK_WARNING_SECONDS, CLOCK_RED_SECONDS = 1.0, 10.0
_QUERIES = pg.load_queries("thermocline.ops", "queries/doctor.sql")


def examine(settings: Settings) -> tuple[Finding, ...]:
    """Every check, whatever the ones before it found."""
    seen = HealthObserver(settings).observe(every_table=True, rights=True)
    has_catalog = seen.postgres is None and seen.catalog is None
    return (
        *_machine(),
        *judge_health(seen),
        *(_postgres(settings, has_catalog=has_catalog) if seen.postgres is None else ()),
    )


def _machine() -> Iterator[Finding]:
    try:
        java = artifacts.java_path()
        yield Finding(check="java", verdict="ok", seen=f"{java}, version {artifacts.read_java_version(java)}")
        jars = artifacts.spark_jar_paths()
        yield Finding(check="jars", verdict="ok", seen=f"{len(jars)} jars in {jars[0].parent}")
    except ThermoclineError as problem:
        yield red("java and jars", problem)


def _postgres(settings: Settings, *, has_catalog: bool) -> Iterator[Finding]:
    assert settings.dsn is not None
    try:
        with pg.connect(
            settings.dsn,
            application_name="thermocline doctor",
            connect_timeout_seconds=settings.connect_timeout_seconds,
        ) as conn:
            yield from _server_findings(conn)
            yield from judge_settings(read_settings_seen(conn, settings, has_catalog=has_catalog))
            yield _slots(conn)
            if (missing := read_missing_rights(conn)) is not None:
                yield judge_rights(missing)
            if has_catalog:
                yield _event_triggers(conn)
                yield _captures(conn)
                yield _grants(conn)
                yield _leftovers(conn)
    except (ThermoclineError, psycopg.Error) as problem:
        named = problem if isinstance(problem, ThermoclineError) else pg.postgres_failed(problem)
        yield red("postgres settings", named)


def _server_findings(conn: pg.Connection) -> Iterator[Finding]:
    before = time.time()
    server = pg.rows_by_name(conn).execute(_QUERIES["facts"]).fetchone()
    after = time.time()
    assert server is not None
    database, role = server.database, server.role
    yield verdict_on(
        "privileges",
        server.may_create,
        f"CREATE on {database} for {role}",
        f"GRANT CREATE ON DATABASE {database} TO {role};",
    )
    yield _judge_fdw(server)
    yield verdict_on(
        "pg_read_all_stats",
        server.reads_stats,
        f"for {role}",
        f"GRANT pg_read_all_stats TO {role}; without it partitions are dropped later than they could be.",
        otherwise="warning",
    )
    yield judge_clock(server.clock_seconds - (before + after) / 2, (after - before) / 2)


def _judge_fdw(server: Any) -> Finding:
    """A superuser's `init` creates the extension; another role needs both statements from one."""
    grant = f"GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO {server.role};"
    verdict: Verdict = "ok"
    fix = None
    if not (server.has_fdw or server.fdw_available):
        verdict, seen, fix = "red", "not on this server", "Install the contrib package of this Postgres."
    elif not server.has_fdw and server.is_superuser:
        verdict, seen, fix = "warning", f"no extension in {server.database} yet", "Run `thermocline init`."
    elif not server.has_fdw:
        verdict, seen = "red", f"no extension in {server.database}"
        fix = f"As a superuser: CREATE EXTENSION postgres_fdw; {grant}"
    elif not server.may_use_fdw:
        verdict, seen, fix = "red", f"{server.role} may not use it", f"As a superuser: {grant}"
    else:
        seen = f"extension, {server.role} may use it"
    return Finding(check="postgres_fdw", verdict=verdict, seen=seen, fix=fix)


def judge_clock(skew_seconds: float, uncertainty_seconds: float) -> Finding:
    """The clocks' difference, less what the way to the server and back may account for."""
    apart = max(0.0, abs(skew_seconds) - uncertainty_seconds)
    verdict: Verdict = "ok" if apart < CLOCK_WARNING_SECONDS else "warning" if apart < CLOCK_RED_SECONDS else "red"
    fix = (
        None
        if verdict == "ok"
        else "Synchronise the clocks (chrony, systemd-timesyncd): pins and grace periods compare them."
    )
    return Finding(check="clock", verdict=verdict, seen=f"{skew_seconds:+.3f} s against Postgres", fix=fix)


def _event_triggers(conn: pg.Connection) -> Finding:
    """Changes of columns are followed in their own transaction where a superuser made the event triggers, else by the
    next cycle."""
    is_there = conn.execute(_QUERIES["event_triggers"]).fetchone() == (True,)
    return verdict_on(
        "event triggers",
        is_there,
        "columns are followed at once" if is_there else "columns are followed by the next cycle",
        "Only a superuser can make them: create the catalog with `thermocline init` as one. Without them "
        "Postgres itself refuses DROP COLUMN and ALTER TYPE on a registered table.",
        otherwise="warning",
    )


def _captures(conn: pg.Connection) -> Finding:
    """What is written to a partition or a spill without its capture trigger is seen by no reader of the seam."""
    found = pg.rows_by_name(conn).execute(_QUERIES["uncaptured"]).fetchall()
    if not found:
        return Finding(check="capture", verdict="ok", seen="every change below the cut-lines is captured")
    first = found[0]
    table, relation, is_on = first.table, first.relation, first.is_captured
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    enable = "" if is_on else f"ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {CAPTURE_TRIGGER}; "
    return Finding(
        check="capture",
        verdict="red",
        seen=(
            f"the capture trigger of {relation} {'was off for a time' if is_on else 'is off or gone'}, so {table} "
            f"may miss rows{more}"
        ),
        fix=f"{enable}thermocline verify --repair {table}",
    )


def _grants(conn: pg.Connection) -> Finding:
    """Grants on a heap that its seam does not have yet, or has still."""
    tables = [row.table for row in pg.rows_by_name(conn).execute(_QUERIES["unfollowed_grants"])]
    if not tables:
        return Finding(check="grants", verdict="ok", seen="every seam grants what its table grants")
    return Finding(
        check="grants",
        verdict="warning",
        seen=f"the grants on {', '.join(tables)} changed, and the seam does not follow them yet",
        fix=f"The next cycle follows them where the worker's role may; else: thermocline sync-grants {tables[0]}",
    )


def _slots(conn: pg.Connection) -> Finding:
    """A slot that nobody reads keeps its snapshot and its WAL: partitions are not dropped, lake snapshots do not
    expire, the disk fills."""
    seen = pg.rows_by_name(conn).execute(_QUERIES["slots"]).fetchone()
    assert seen is not None
    if seen.abandoned:
        what = (
            "holds back the dropping of partitions and the expiry of lake snapshots"
            if seen.holds_snapshot
            else "keeps WAL on disk"
        )
        drop = f"SELECT pg_drop_replication_slot({sql.Literal(seen.abandoned).as_string(conn)});"
        return Finding(
            check="replication slots",
            verdict="red" if seen.holds_snapshot else "warning",
            seen=f"{seen.abandoned} is read by nobody and {what} ({seen.kept_wal} of WAL kept)",
            fix=f"Start its reader, or, when it is gone for good: {drop}",
        )
    return verdict_on(
        "replication slots",
        seen.slots < seen.max_slots,
        f"{seen.slots} of {seen.max_slots} in use, each with its reader",
        "Raise max_replication_slots and restart Postgres: a new standby or subscriber would find no slot free.",
        otherwise="warning",
    )


def _leftovers(conn: pg.Connection) -> Finding:
    unfinished = pg.rows_by_name(conn).execute(_QUERIES["unfinished_ops"]).fetchone()
    assert unfinished is not None
    oldest = f"{unfinished.oldest:%Y-%m-%d %H:%M} UTC" if unfinished.ops else ""
    seen = f"{unfinished.ops}, the oldest since {oldest}" if unfinished.ops else "none"
    return verdict_on(
        "unfinished operations",
        unfinished.ops == 0,
        seen,
        "A worker resolves them: see that one runs.",
        otherwise="warning",
    )
