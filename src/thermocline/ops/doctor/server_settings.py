"""Settings of Postgres that make Thermocline slow or stop it, each with the statement that corrects it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg.rows import dict_row

from thermocline.core.health.finding import Finding, verdict_on
from thermocline.runtime import pg
from thermocline.runtime.settings import Settings

_QUERIES = pg.load_queries("thermocline.ops", "queries/doctor.sql")
_SESSIONS_AT_ONCE = 10
"""So many sessions should be able to read the largest table at once without exhausting the lock table."""
_GATEWAY_POOLS, _WORKER_SESSIONS = 20, 8
_LOCK_STEP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSeen:
    """Settings as a session of this role in this database has them; names are quoted where they must be."""

    constraint_exclusion: str
    wal_level: str
    is_jit_on: bool
    max_locks_per_transaction: int
    max_connections: int
    max_prepared_transactions: int
    reserved_connections: int
    timeouts: tuple[str, ...]
    database: str
    role: str
    largest_table: str | None = None
    largest_locks: int = 0
    sessions_needed: int = 0


def read_settings_seen(conn: pg.Connection, settings: Settings, *, has_catalog: bool) -> SettingsSeen:
    row = conn.cursor(row_factory=dict_row).execute(_QUERIES["settings"]).fetchone()
    assert row is not None
    most = conn.execute(_QUERIES["most_locks"]).fetchone() if has_catalog else None
    return SettingsSeen(
        **{**row, "timeouts": tuple(row["timeouts"])},
        largest_table=most[0] if most else None,
        largest_locks=most[1] if most else 0,
        sessions_needed=_GATEWAY_POOLS + settings.gateway_evaluations + _WORKER_SESSIONS + (os.cpu_count() or 2),
    )


def judge_settings(seen: SettingsSeen) -> Iterator[Finding]:
    yield verdict_on(
        "constraint_exclusion",
        seen.constraint_exclusion == "on",
        seen.constraint_exclusion,
        f"ALTER DATABASE {seen.database} SET constraint_exclusion = on; without it queries of one tier also look "
        "into the delta or the spill.",
        otherwise="warning",
    )
    yield verdict_on(
        "wal_level",
        seen.wal_level != "minimal",
        f"{seen.wal_level} (tiering needs none in particular)",
        "ALTER SYSTEM SET wal_level = replica; and restart Postgres: no backup and no standby can be made of this "
        "server, and the lake is none.",
        otherwise="warning",
    )
    yield verdict_on(
        "jit",
        not seen.is_jit_on,
        "on" if seen.is_jit_on else "off",
        f"ALTER DATABASE {seen.database} SET jit = off; a plan over many partitions and the lake costs enough to be "
        "compiled, which takes longer than most such statements.",
        otherwise="warning",
    )
    yield _judge_locks(seen)
    yield _judge_connections(seen)
    yield verdict_on(
        "timeouts",
        not seen.timeouts,
        f"{', '.join(seen.timeouts)} set for {seen.role}" if seen.timeouts else f"none for {seen.role}",
        " ".join(f"ALTER ROLE {seen.role} IN DATABASE {seen.database} SET {name} = 0;" for name in seen.timeouts)
        + " A copy and the snapshot it reads last as long as the partition is large; the worker sets its own limits.",
        otherwise="warning",
    )


def _judge_locks(seen: SettingsSeen) -> Finding:
    slots = seen.max_connections + seen.max_prepared_transactions
    capacity, needed = seen.max_locks_per_transaction * slots, seen.largest_locks * _SESSIONS_AT_ONCE
    least = -(-needed // max(slots, 1) // _LOCK_STEP) * _LOCK_STEP
    largest = f"; {seen.largest_table} takes {seen.largest_locks:,} in one statement" if seen.largest_table else ""
    return verdict_on(
        "max_locks_per_transaction",
        needed <= capacity,
        f"{seen.max_locks_per_transaction}, {capacity:,} locks in all{largest}",
        f"ALTER SYSTEM SET max_locks_per_transaction = {least}; and restart Postgres: {_SESSIONS_AT_ONCE} sessions "
        "that read every partition of it would exhaust the lock table.",
        otherwise="warning",
    )


def _judge_connections(seen: SettingsSeen) -> Finding:
    free = seen.max_connections - seen.reserved_connections
    return verdict_on(
        "max_connections",
        seen.sessions_needed <= free,
        f"{seen.max_connections}; a gateway and a worker use up to {seen.sessions_needed}",
        f"ALTER SYSTEM SET max_connections = {seen.max_connections - free + 2 * seen.sessions_needed}; and restart "
        "Postgres.",
        otherwise="warning",
    )
