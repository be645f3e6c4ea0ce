"""Looks at everything Thermocline needs and says, for each failure, what to do. Changes nothing."""

from __future__ import annotations

import shutil
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from thermocline import artifacts, pg
from thermocline.catalog.migrate import read_migrations, read_version
from thermocline.directories import check_directory
from thermocline.errors import ThermoclineError
from thermocline.settings import Settings, split_address

Verdict = Literal["ok", "warning", "red"]
CLOCK_WARNING_SECONDS, CLOCK_RED_SECONDS = 1.0, 10.0
ROOMY_BYTES = 2 * 1024**3
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_QUERIES = pg.load_queries("thermocline.ops", "queries/doctor.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was seen, and what to do about it."""

    check: str
    verdict: Verdict
    seen: str
    fix: str | None = None


def examine(settings: Settings) -> tuple[Finding, ...]:
    """Every check, whatever the ones before it found."""
    return (*_machine(settings), *_postgres(settings), _gateway(settings))


def _machine(settings: Settings) -> Iterator[Finding]:
    try:
        java = artifacts.java_path()
        yield Finding(check="java", verdict="ok", seen=f"{java}, version {artifacts.read_java_version(java)}")
        jars = artifacts.spark_jar_paths()
        yield Finding(check="jars", verdict="ok", seen=f"{len(jars)} jars in {jars[0].parent}")
    except ThermoclineError as problem:
        yield _red("java and jars", problem)
    try:
        yield _warehouse(settings.warehouse_location)
    except ThermoclineError as problem:
        yield _red("warehouse", problem)


def _warehouse(location: str) -> Finding:
    if "://" in location and not location.startswith("file://"):
        return Finding(
            check="warehouse", verdict="warning", seen=f"{location} is not local and was not written to", fix="Tier one partition."
        )
    directory = Path(location.removeprefix("file://"))
    if not directory.exists():
        return Finding(check="warehouse", verdict="warning", seen=f"{location} does not exist yet", fix="`thermocline up` makes it.")
    check_directory(directory, "The warehouse")
    free_bytes = shutil.disk_usage(directory).free
    seen = f"{location} is writable, {free_bytes / 1024**3:.1f} GB free"
    if free_bytes < ROOMY_BYTES:
        return Finding(
            check="warehouse", verdict="warning", seen=seen, fix="Free some space: files are written before old ones are removed."
        )
    return Finding(check="warehouse", verdict="ok", seen=seen)


def _postgres(settings: Settings) -> Iterator[Finding]:
    if settings.dsn is None:
        yield Finding(
            check="postgres",
            verdict="red",
            seen="no DSN, and no stack in the directory",
            fix="Run `thermocline up`, or give --dsn or --dir.",
        )
        return
    try:
        with pg.connect(
            settings.dsn, application_name="thermocline doctor", connect_timeout_seconds=settings.connect_timeout_seconds
        ) as conn:
            pg.check_version(conn)
            yield from _server_findings(conn)
            yield _catalog(conn)
            if read_version(conn):
                yield _event_triggers(conn)
            yield _leftovers(conn)
    except ThermoclineError as problem:
        yield _red("postgres", problem)


def _server_findings(conn: pg.Connection) -> Iterator[Finding]:
    before = time.time()
    row = conn.execute(_QUERIES["facts"]).fetchone()
    after = time.time()
    assert row is not None
    version, exclusion, wal_level, may_create, has_fdw, fdw_available, reads_stats, server_clock, database, role = row
    yield Finding(check="postgres", verdict="ok", seen=f"version {version} at {conn.info.host} port {conn.info.port}, database {database}")
    yield _verdict(
        "constraint_exclusion",
        exclusion == "on",
        exclusion,
        f"ALTER DATABASE {database} SET constraint_exclusion = on; without it queries of recent rows also ask the lake.",
        otherwise="warning",
    )
    yield Finding(check="wal_level", verdict="ok", seen=f"{wal_level} (tiering needs none in particular)")
    yield _verdict("privileges", may_create, f"CREATE on {database} for {role}", f"GRANT CREATE ON DATABASE {database} TO {role};")
    if has_fdw or fdw_available:
        yield _verdict("postgres_fdw", has_fdw, "extension", "Run `thermocline init`.", otherwise="warning")
    else:
        yield Finding(check="postgres_fdw", verdict="red", seen="not on this server", fix="Install the contrib package of this Postgres.")
    yield _verdict(
        "pg_read_all_stats",
        reads_stats,
        f"for {role}",
        f"GRANT pg_read_all_stats TO {role}; without it partitions are dropped later than they could be.",
        otherwise="warning",
    )
    yield _clock(server_clock - (before + after) / 2, (after - before) / 2)


def _clock(skew_seconds: float, uncertainty_seconds: float) -> Finding:
    apart = max(0.0, abs(skew_seconds) - uncertainty_seconds)
    verdict: Verdict = "ok" if apart < CLOCK_WARNING_SECONDS else "warning" if apart < CLOCK_RED_SECONDS else "red"
    fix = None if verdict == "ok" else "Synchronise the clocks (chrony, systemd-timesyncd): pins and grace periods compare them."
    return Finding(check="clock", verdict=verdict, seen=f"{skew_seconds:+.3f} s against Postgres", fix=fix)


def _catalog(conn: pg.Connection) -> Finding:
    version, known = read_version(conn), len(read_migrations())
    if version > known:
        return Finding(
            check="catalog", verdict="red", seen=f"version {version}, newer than this program ({known})", fix="Upgrade thermocline."
        )
    return _verdict("catalog", version == known, f"version {version} of {known}", "Run `thermocline init`.")


def _event_triggers(conn: pg.Connection) -> Finding:
    """Changes of columns are followed in their own transaction where a superuser made the event triggers, else by the next cycle."""
    is_there = conn.execute(_QUERIES["event_triggers"]).fetchone() == (True,)
    return _verdict(
        "event triggers",
        is_there,
        "columns are followed at once" if is_there else "columns are followed by the next cycle",
        "Only a superuser can make them: create the catalog with `thermocline init` as one. Without them Postgres itself refuses"
        " DROP COLUMN and ALTER TYPE on a registered table.",
        otherwise="warning",
    )


def _leftovers(conn: pg.Connection) -> Finding:
    if read_version(conn) == 0:
        return Finding(check="unfinished operations", verdict="ok", seen="none")
    row = conn.execute(_QUERIES["unfinished_ops"]).fetchone()
    assert row is not None
    count, oldest = row
    seen = f"{count}, the oldest since {oldest:%Y-%m-%d %H:%M} UTC" if count else "none"
    return _verdict("unfinished operations", count == 0, seen, "A worker resolves them: see that one runs.", otherwise="warning")


def _gateway(settings: Settings) -> Finding:
    """Ask for TLS, which every server of the Postgres protocol answers with one byte before any login."""
    host, port = split_address(settings.gateway_listen)
    try:
        with socket.create_connection((host, port), timeout=settings.connect_timeout_seconds) as link:
            link.settimeout(settings.connect_timeout_seconds)
            link.sendall(_SSL_REQUEST)
            answer = link.recv(1)
    except OSError as problem:
        return Finding(
            check="gateway",
            verdict="red",
            seen=f"{host}:{port} cannot be reached: {problem.strerror or problem}",
            fix="Start it (`thermocline gateway`, or `thermocline up` for everything), or correct gateway_listen.",
        )
    speaks = answer in (b"N", b"S")
    return _verdict("gateway", speaks, f"{host}:{port} answers", "Another program has that port: correct gateway_listen.")


def _verdict(check: str, good: bool, seen: str, fix: str, otherwise: Verdict = "red") -> Finding:
    return Finding(check=check, verdict="ok" if good else otherwise, seen=seen, fix=None if good else fix)


def _red(check: str, problem: ThermoclineError) -> Finding:
    return Finding(check=check, verdict="red", seen=str(problem), fix=problem.hint or None)
