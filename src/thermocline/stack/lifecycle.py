"""Start, stop and status of a stack."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from psycopg import sql

from thermocline.errors import DirectoryUnusable, NoStack, StackNotReady, StackNotReadyInTime
from thermocline.ops.admin.init_database import GatewayAddress, init_database
from thermocline.runtime import pg
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings_layers import LoadedSettings
from thermocline.seam.foreign_server import ROOT_CERTIFICATE, GatewayTls
from thermocline.stack.children import PostgresChild, ProgramChild, end_process
from thermocline.stack.credentials import keep_password
from thermocline.stack.prepare import DATABASE, SUPERUSER, check_ports, prepare_stack, process_environment
from thermocline.stack.state import ProcessRecord, StackState, read_state, write_state
from thermocline.stack.supervisor import Supervisor

EMBEDDED_SETTINGS = {
    "constraint_exclusion": "on",
    "wal_level": "logical",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
DETACH_TIMEOUT_SECONDS = 180.0
DOWN_TIMEOUT_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackStatus:
    """The recorded state of a stack, with each process checked."""

    state: StackState
    is_up: bool


def run_stack(
    loaded: LoadedSettings, *, report_progress: ProgressReporter, on_ready: Callable[[Supervisor], None]
) -> bool:
    """Start the stack and supervise it until a signal; False when it is up already."""
    directory = loaded.values.dir
    with _try_lock(directory) as locked:
        if not locked:
            return False
        _end_leftovers(directory, report_progress)
        state = prepare_stack(loaded)
        check_ports(directory, state)
        supervisor = Supervisor(directory, state, report_progress)
        with supervisor.signals():
            try:
                _start_all(supervisor, loaded, report_progress)
                supervisor.mark_up()
                on_ready(supervisor)
                supervisor.run()
            finally:
                report_progress("stopping")
                supervisor.stop()
    return True


def start_detached(loaded: LoadedSettings, arguments: Sequence[str]) -> StackState:
    """Start the stack in the background and return once it is up."""
    directory = loaded.values.dir
    with _try_lock(directory) as locked:
        if not locked:
            return wait_until_up(directory, None)
        _end_leftovers(directory, no_progress)
        check_ports(directory, prepare_stack(loaded))
    log_path = directory / "logs" / "supervisor.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if loaded.values.dsn is not None:
        # By the environment, not as an argument: a DSN may hold a password, and everybody may read arguments.
        environment["THERMOCLINE_DSN"] = loaded.values.dsn
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "thermocline", "up", "--dir", str(directory), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )
    return wait_until_up(directory, process)


def wait_until_up(directory: Path, process: subprocess.Popen[bytes] | None) -> StackState:
    """The state once the stack is up; refuses when its supervisor ended or the time is up."""
    deadline = time.monotonic() + DETACH_TIMEOUT_SECONDS
    log_path = directory / "logs" / "supervisor.log"
    while time.monotonic() < deadline:
        state = read_state(directory)
        if (
            state
            and state.phase == "up"
            and state.supervisor.is_alive()
            and (process is None or state.supervisor.pid == process.pid)
        ):
            return state
        if process is not None and process.poll() is not None:
            lines = [line for line in log_path.read_text(errors="replace").splitlines() if line.strip()]
            problem = StackNotReadyInTime if process.returncode == StackNotReadyInTime.exit_code else StackNotReady
            raise problem(_first_error(lines), hint=f"The whole log is {log_path}.")
        time.sleep(0.1)
    waited = f"The stack in {directory} was not up within {DETACH_TIMEOUT_SECONDS:.0f} seconds."
    raise StackNotReadyInTime(waited, hint=f"Its log is {log_path}.")


def stop_stack(directory: Path) -> tuple[str, ...]:
    """Stop everything of the stack, its supervisor alive or not; the names of what was running."""
    state = read_state(directory)
    if state is None:
        raise NoStack(f"No stack is in {directory}.")
    stopped = [record.name for record in state.processes if record.is_alive()]
    if state.supervisor.is_alive():
        end_process(state.supervisor, timeout_seconds=DOWN_TIMEOUT_SECONDS)
        stopped.append("supervisor")
    stopped += [name for name in _end_leftovers(directory, no_progress) if name not in stopped]
    return tuple(dict.fromkeys(stopped))


def read_status(directory: Path) -> StackStatus:
    """The stack in this directory, with every process checked."""
    state = read_state(directory)
    if state is None:
        raise NoStack(f"No stack is in {directory}.")
    processes = tuple(
        record
        if record.state == "waiting to restart" or record.is_alive()
        else replace(record, pid=None, started=None, state="stopped")
        for record in state.processes
    )
    alive = state.supervisor.is_alive()
    return StackStatus(
        state=replace(state, processes=processes, phase=state.phase if alive else "down"),
        is_up=alive and state.phase == "up",
    )


def _start_all(supervisor: Supervisor, loaded: LoadedSettings, report_progress: ProgressReporter) -> None:
    directory, state = supervisor.directory, supervisor.state
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    if state.postgres_port is not None:
        report_progress(f"starting Postgres on port {state.postgres_port}")
        password = keep_password(directory, "postgres_password")
        server = PostgresServer(
            directory / "postgres",
            state.postgres_port,
            EMBEDDED_SETTINGS,
            superuser=SUPERUSER,
            password=password,
            log_path=logs / "postgres.log",
        )
        supervisor.start(PostgresChild(server))
        _make_database(server.dsn("postgres"))
    init_database(
        state.postgres_dsn,
        _gateway_address(loaded, directory, state),
        connect_timeout_seconds=loaded.values.connect_timeout_seconds,
    )
    environment = process_environment(directory)
    for name in ("gateway", "worker", "serve"):
        report_progress(f"starting {name}")
        supervisor.start(ProgramChild(name, log_path=logs / f"{name}.log", environment=environment))
    supervisor.wait_for_port("gateway", state.gateway_host, state.gateway_port)
    supervisor.wait_for_port("serve", state.http_host, state.http_port)


def _gateway_address(loaded: LoadedSettings, directory: Path, state: StackState) -> GatewayAddress:
    """The address at which Postgres reaches the gateway, and its TLS: the stack's own certificate is verified; a
    gateway given by gateway_addresses keeps the TLS options it has."""
    host, port = state.gateway_host, str(state.gateway_port)
    if loaded.values.gateway_addresses is not None:
        host, port = loaded.values.gateway_hosts_and_ports
    password = keep_password(directory, "gateway_password")
    tls: GatewayTls = "left"
    if state.gateway_cert is not None and loaded.values.gateway_addresses is None:
        tls = "verified" if state.embedded else "bound"
    if tls == "verified" and state.gateway_cert is not None:
        (directory / "postgres" / ROOT_CERTIFICATE).write_bytes(Path(state.gateway_cert).read_bytes())
    return GatewayAddress(host=host, port=port, password=password, tls=tls)


def _make_database(dsn: str) -> None:
    with pg.connect(dsn, autocommit=True) as conn:
        if conn.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone() is None:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))


def _end_leftovers(directory: Path, report_progress: ProgressReporter) -> list[str]:
    """End the processes that a killed supervisor left behind."""
    state = read_state(directory)
    if state is None or state.supervisor.is_alive():
        return []
    ended = []
    for record in reversed(state.processes):
        # Postgres calls a fast shutdown SIGINT; a SIGTERM would wait for its clients.
        if end_process(record, signal.SIGINT if record.name == "postgres" else signal.SIGTERM):
            ended.append(record.name)
            report_progress(f"ended {record.name}, left behind by a stack that was killed")
    idle = tuple(ProcessRecord(name=record.name, restarts=record.restarts) for record in state.processes)
    write_state(directory, replace(state, phase="down", supervisor=ProcessRecord(name="supervisor"), processes=idle))
    return ended


@contextmanager
def _try_lock(directory: Path) -> Iterator[bool]:
    """Hold the stack's lock while inside; False when a supervisor holds it."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle = (directory / ".lock").open("w")
    except OSError as problem:
        raise DirectoryUnusable(
            f"The stack's directory {directory} cannot be used: {problem.strerror}.", hint="Name another one by --dir."
        ) from problem
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _first_error(lines: list[str]) -> str:
    errors = [line for line in lines if line.startswith("error ")]
    return (
        errors[0].split(": ", 1)[-1]
        if errors
        else (lines[-1] if lines else "The stack's supervisor ended without a message.")
    )
