"""Looks at everything Thermocline needs and says, for each failure, what to do. Leaves everything as it was."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import psycopg
from psycopg import sql

from thermocline.catalog.migrate import newest_version, read_version
from thermocline.catalog.profiles import read_profiles
from thermocline.errors import LakeTableNotServed, ThermoclineError
from thermocline.ops.doctor.findings import Finding, Verdict, red, verdict_on
from thermocline.ops.doctor.warehouse_rights import probe_warehouse
from thermocline.runtime import artifacts, pg
from thermocline.runtime.settings import Settings, split_address
from thermocline.seam.objects import CAPTURE_TRIGGER, SERVER

CLOCK_WARNING_SECONDS, CLOCK_RED_SECONDS = 1.0, 10.0
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_QUERIES = pg.load_queries("thermocline.ops", "queries/doctor.sql")


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
        yield red("java and jars", problem)
    yield probe_warehouse(settings.warehouse_location, "warehouse")


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
            settings.dsn,
            application_name="thermocline doctor",
            connect_timeout_seconds=settings.connect_timeout_seconds,
        ) as conn:
            pg.check_version(conn)
            yield from _server_findings(conn)
            yield _slots(conn)
            yield _foreign_server(conn, settings)
            yield from _catalog_findings(conn)
    except ThermoclineError as problem:
        yield red("postgres", problem)


def _catalog_findings(conn: pg.Connection) -> Iterator[Finding]:
    try:
        yield _catalog(conn)
        if read_version(conn):
            yield _event_triggers(conn)
            yield _captures(conn)
            yield from (
                probe_warehouse(found.warehouse, f"warehouse of profile {found.name}") for found in read_profiles(conn)
            )
        yield _leftovers(conn)
    except psycopg.errors.InsufficientPrivilege as problem:
        fix = "Run it as the role that ran `thermocline init`, or as one that is a member of it."
        yield Finding(check="catalog", verdict="red", seen=str(problem.diag.message_primary), fix=fix)


def _server_findings(conn: pg.Connection) -> Iterator[Finding]:
    before = time.time()
    row = conn.execute(_QUERIES["facts"]).fetchone()
    after = time.time()
    assert row is not None
    version, exclusion, wal_level, may_create, has_fdw, fdw_available, reads_stats, server_clock, database, role = row
    yield Finding(
        check="postgres",
        verdict="ok",
        seen=f"version {version} at {conn.info.host} port {conn.info.port}, database {database}",
    )
    yield verdict_on(
        "constraint_exclusion",
        exclusion == "on",
        exclusion,
        (
            f"ALTER DATABASE {database} SET constraint_exclusion = on; without it queries of recent rows also ask "
            "the lake."
        ),
        otherwise="warning",
    )
    yield verdict_on(
        "wal_level",
        wal_level != "minimal",
        f"{wal_level} (tiering needs none in particular)",
        (
            "Set wal_level = replica and restart Postgres: no backup and no standby can be made of this server, "
            "and the lake is none."
        ),
        otherwise="warning",
    )
    yield verdict_on(
        "privileges", may_create, f"CREATE on {database} for {role}", f"GRANT CREATE ON DATABASE {database} TO {role};"
    )
    if has_fdw or fdw_available:
        yield verdict_on("postgres_fdw", has_fdw, "extension", "Run `thermocline init`.", otherwise="warning")
    else:
        yield Finding(
            check="postgres_fdw",
            verdict="red",
            seen="not on this server",
            fix="Install the contrib package of this Postgres.",
        )
    yield verdict_on(
        "pg_read_all_stats",
        reads_stats,
        f"for {role}",
        f"GRANT pg_read_all_stats TO {role}; without it partitions are dropped later than they could be.",
        otherwise="warning",
    )
    yield judge_clock(server_clock - (before + after) / 2, (after - before) / 2)


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


def _catalog(conn: pg.Connection) -> Finding:
    version, known = read_version(conn), newest_version()
    if version > known:
        return Finding(
            check="catalog",
            verdict="red",
            seen=f"version {version}, newer than this program ({known})",
            fix="Upgrade thermocline.",
        )
    return verdict_on("catalog", version == known, f"version {version} of {known}", "Run `thermocline init`.")


def _event_triggers(conn: pg.Connection) -> Finding:
    """Changes of columns are followed in their own transaction where a superuser made the event triggers, else by the
    next cycle."""
    is_there = conn.execute(_QUERIES["event_triggers"]).fetchone() == (True,)
    return verdict_on(
        "event triggers",
        is_there,
        "columns are followed at once" if is_there else "columns are followed by the next cycle",
        "Only a superuser can make them: create the catalog with `thermocline init` as one. Without them "
        "Postgres itself refuses"
        " DROP COLUMN and ALTER TYPE on a registered table.",
        otherwise="warning",
    )


def _captures(conn: pg.Connection) -> Finding:
    """What is written to a partition or a spill without its capture trigger is seen by no reader of the seam."""
    found = conn.execute(_QUERIES["uncaptured"]).fetchall()
    if not found:
        return Finding(check="capture", verdict="ok", seen="every change below the cut-lines is captured")
    table, relation, is_on = found[0]
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


def _slots(conn: pg.Connection) -> Finding:
    """A slot that nobody reads keeps its snapshot and its WAL: partitions are not dropped, lake snapshots do not
    expire, the disk fills."""
    row = conn.execute(_QUERIES["slots"]).fetchone()
    assert row is not None
    count, limit, abandoned, holds_snapshot, kept = row
    if abandoned:
        what = (
            "holds back the dropping of partitions and the expiry of lake snapshots"
            if holds_snapshot
            else "keeps WAL on disk"
        )
        drop = f"SELECT pg_drop_replication_slot({sql.Literal(abandoned).as_string(conn)});"
        return Finding(
            check="replication slots",
            verdict="red" if holds_snapshot else "warning",
            seen=f"{abandoned} is read by nobody and {what} ({kept} of WAL kept)",
            fix=f"Start its reader, or, when it is gone for good: {drop}",
        )
    return verdict_on(
        "replication slots",
        count < limit,
        f"{count} of {limit} in use, each with its reader",
        "Raise max_replication_slots and restart Postgres: a new standby or subscriber would find no slot free.",
        otherwise="warning",
    )


def _foreign_server(conn: pg.Connection, settings: Settings) -> Finding:
    """Postgres' own way to the lake: the server is there, a login through it succeeds, and what answers serves this
    database."""
    check = f"foreign server {SERVER}"
    init = (
        "Run `thermocline init`, as the role that shall read the lake, with gateway_addresses as Postgres sees "
        "the gateway."
    )
    row = conn.execute(_QUERIES["server_address"], {"server": SERVER}).fetchone()
    if row is None:
        return Finding(check=check, verdict="warning", seen="not there", fix=init)
    host, port, role, has_login = row
    if not has_login:
        return Finding(check=check, verdict="red", seen=f"role {role} has no login at {host} port {port}", fix=init)
    if (host, port) != settings.gateway_hosts_and_ports:
        wanted = " port ".join(settings.gateway_hosts_and_ports)
        return Finding(
            check=check, verdict="red", seen=f"leads to {host} port {port}, and the settings say {wanted}", fix=init
        )
    try:
        # Logs in and asks for a table that no lake has. The foreign table is gone with the transaction.
        with conn.transaction(force_rollback=True):
            conn.execute(sql.SQL(_QUERIES["probe_table"]).format(server=sql.Identifier(SERVER)))
            conn.execute(_QUERIES["probe"])
    except psycopg.Error as problem:
        if LakeTableNotServed.code in str(problem):
            return _served_database(conn, check, f"{host} port {port}", role, init)
        said = problem.diag.message_detail or problem.diag.message_primary or str(problem)
        fix = (
            f"Start the gateway where Postgres can reach it at {host} port {port}. {init} A login that was "
            "refused: `--rotate-logins`."
        )
        return Finding(check=check, verdict="red", seen=f"{host} port {port}: {said.strip().splitlines()[0]}", fix=fix)
    return Finding(
        check=check, verdict="red", seen=f"what answers at {host} port {port} is no gateway of ours", fix=init
    )


def _served_database(conn: pg.Connection, check: str, place: str, role: str, init: str) -> Finding:
    """A gateway answered; one that serves this database has a session in it."""
    if conn.execute(_QUERIES["gateway_is_ours"]).fetchone() != (True,):
        fix = f"Start a gateway with the DSN of this database (`thermocline gateway --dsn …`). {init}"
        return Finding(check=check, verdict="red", seen=f"what answers at {place} serves another database", fix=fix)
    return Finding(check=check, verdict="ok", seen=f"{place}, role {role} may log in")


def _leftovers(conn: pg.Connection) -> Finding:
    if read_version(conn) == 0:
        return Finding(check="unfinished operations", verdict="ok", seen="none")
    row = conn.execute(_QUERIES["unfinished_ops"]).fetchone()
    assert row is not None
    count, oldest = row
    seen = f"{count}, the oldest since {oldest:%Y-%m-%d %H:%M} UTC" if count else "none"
    return verdict_on(
        "unfinished operations", count == 0, seen, "A worker resolves them: see that one runs.", otherwise="warning"
    )


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
    return verdict_on(
        "gateway", speaks, f"{host}:{port} answers", "Another program has that port: correct gateway_listen."
    )
