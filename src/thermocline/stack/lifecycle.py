"""Start, stop and status of a stack."""

from __future__ import annotations

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

from thermocline.errors import NoStack, StackNotReadyInTime
from thermocline.ops.admin.init_database import GatewayLogin, init_database
from thermocline.ops.admin.places import WantedPlaces
from thermocline.runtime import pg
from thermocline.runtime.directories import make_private_directory
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import EVERY_INTERFACE, Settings
from thermocline.runtime.settings_layers import LoadedSettings
from thermocline.seam.foreign_server import ROOT_CERTIFICATE, GatewayTls
from thermocline.stack.child_errors import read_child_error
from thermocline.stack.children import PostgresChild, ProgramChild, end_process
from thermocline.stack.credentials import keep_password, stack_dsn
from thermocline.stack.lock import StackLock, lock_path, read_holder, try_lock
from thermocline.stack.own_postgres import find_own_postgres
from thermocline.stack.prepare import DATABASE, SUPERUSER, check_ports, prepare_stack, process_environment
from thermocline.stack.readiness_probes import why_not_connected, why_not_ready
from thermocline.stack.state import ProcessRecord, StackState, read_state, state_path, write_state
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
_LOCK_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StackStatus:
    """The recorded state of a stack, with each process checked."""

    directory: Path
    state: StackState
    is_up: bool


def run_stack(
    loaded: LoadedSettings,
    *,
    report_progress: ProgressReporter,
    on_ready: Callable[[Supervisor], None],
    take_over: bool = False,
) -> bool:
    """Start the stack and supervise it until a signal; False when it is up already."""
    directory = loaded.values.dir
    with _lock_unless_up(directory, report_progress) as lock:
        if lock is None:
            find_own_postgres(loaded, read_state(directory))
            return False
        _end_leftovers(directory, report_progress)
        is_new = read_state(directory) is None
        state = prepare_stack(loaded, take_over=take_over)
        pg.forget_libpq_variables()
        check_ports(directory, state)
        supervisor = Supervisor(directory, state, report_progress)
        with supervisor.signals():
            try:
                supervisor.record_start()
                _start_all(supervisor, loaded, report_progress, take_over=take_over)
                supervisor.mark_up()
                on_ready(supervisor)
                supervisor.run()
            finally:
                report_progress("stopping")
                supervisor.stop()
                if is_new and not supervisor.was_up:
                    # What was refused is not remembered.
                    state_path(directory).unlink()
    return True


def start_detached(loaded: LoadedSettings, arguments: Sequence[str], *, take_over: bool = False) -> StackState:
    """Start the stack in the background and return once it is up."""
    directory = loaded.values.dir
    with _lock_unless_up(directory, no_progress) as lock:
        if lock is None:
            find_own_postgres(loaded, read_state(directory))
            return wait_until_up(directory, None)
        _end_leftovers(directory, no_progress)
        check_ports(directory, prepare_stack(loaded, take_over=take_over))
        process = _launch_supervisor(loaded, arguments, lock, take_over=take_over)
    return wait_until_up(directory, process)


def _launch_supervisor(
    loaded: LoadedSettings, arguments: Sequence[str], lock: StackLock, *, take_over: bool
) -> subprocess.Popen[bytes]:
    """`up` in the background; it holds the lock from its start on."""
    directory = loaded.values.dir
    log_path = directory / "logs" / "supervisor.log"
    make_private_directory(log_path.parent, is_shared=loaded.values.shared_files)
    environment = {**os.environ, **lock.environment()}
    if loaded.values.dsn is not None:
        # By the environment, not as an argument: a DSN may hold a password, and everybody may read arguments.
        environment["THERMOCLINE_DSN"] = loaded.values.dsn
    taking = ["--take-over"] if take_over else []
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "thermocline", "up", "--dir", str(directory), *arguments, *taking],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
            pass_fds=(lock.descriptor,),
        )


def wait_until_up(directory: Path, process: subprocess.Popen[bytes] | None) -> StackState:
    """The state once the stack is up; refuses when its supervisor ended or the time is up."""
    deadline = time.monotonic() + DETACH_TIMEOUT_SECONDS
    log_path = directory / "logs" / "supervisor.log"
    while time.monotonic() < deadline:
        state = read_up_state(directory)
        if state is not None and (process is None or state.supervisor.pid == process.pid):
            return state
        if process is not None and process.poll() is not None:
            raise read_child_error("", log_path)
        time.sleep(0.1)
    waited = f"The stack in {directory} was not up within {DETACH_TIMEOUT_SECONDS:.0f} seconds."
    raise StackNotReadyInTime(waited, hint=f"Its log is {log_path}.")


def read_up_state(directory: Path) -> StackState | None:
    """The recorded state of a stack that is up."""
    state = read_state(directory)
    return state if state is not None and state.phase == "up" and state.supervisor.is_alive() else None


def stop_stack(directory: Path) -> tuple[str, ...]:
    """Stop everything of the stack, its supervisor alive or not, also one that is only preparing; the names of what was
    running."""
    if read_state(directory) is None and not lock_path(directory).exists():
        raise NoStack(f"No stack is in {directory}.")
    stopped: list[str] = []
    deadline = time.monotonic() + 2 * DOWN_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with try_lock(directory) as lock:
            if lock is not None:
                stopped += _end_leftovers(directory, no_progress)
                if not stopped and read_state(directory) is None:
                    raise NoStack(f"No stack is in {directory}.")
                return tuple(dict.fromkeys(stopped))
        stopped += _end_holder(directory)
        time.sleep(_LOCK_POLL_SECONDS)
    raise StackNotReadyInTime(
        f"Another process starts or stops the stack in {directory}, and did not end within "
        f"{2 * DOWN_TIMEOUT_SECONDS:.0f} seconds.",
        hint="Run `thermocline down` again.",
    )


def _end_holder(directory: Path) -> list[str]:
    """End the process that prepares or supervises the stack; the names of what ran."""
    state = read_state(directory)
    # A supervisor of an earlier version did not name itself in the lock.
    holder = read_holder(directory) or (state.supervisor if state is not None else None)
    if holder is None or not holder.is_alive():
        return []
    running = [record.name for record in state.processes if record.is_alive()] if state is not None else []
    end_process(holder, timeout_seconds=DOWN_TIMEOUT_SECONDS)
    return [*running, "supervisor"]


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
        directory=directory,
        state=replace(state, processes=processes, phase=state.phase if alive else "down"),
        is_up=alive and state.phase == "up",
    )


def _start_all(
    supervisor: Supervisor, loaded: LoadedSettings, report_progress: ProgressReporter, *, take_over: bool
) -> None:
    directory, state = supervisor.directory, supervisor.state
    logs = directory / "logs"
    make_private_directory(logs, is_shared=loaded.values.shared_files)
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
    dsn = stack_dsn(directory, state.postgres_dsn)
    report = init_database(
        dsn,
        _wanted_places(loaded.values, state),
        login=_gateway_login(loaded.values, directory, state),
        take_over=take_over,
        connect_timeout_seconds=loaded.values.connect_timeout_seconds,
    )
    supervisor.note_warehouse(report.warehouse)
    environment = process_environment(directory)
    for name in ("gateway", "worker", "serve"):
        report_progress(f"starting {name}")
        supervisor.start(ProgramChild(name, log_path=logs / f"{name}.log", environment=environment))
    supervisor.wait_until_ready("gateway", lambda _pid: why_not_ready(f"{state.gateway_http_url}/readyz"))
    supervisor.wait_until_ready("serve", lambda _pid: why_not_ready(f"{state.api_url}/healthz"))
    supervisor.wait_until_ready("worker", lambda pid: why_not_connected(dsn, pid))


def _wanted_places(settings: Settings, state: StackState) -> WantedPlaces:
    """The stack's own gateway is where Postgres shall look, unless the settings name others."""
    host = "127.0.0.1" if state.gateway_host in EVERY_INTERFACE else state.gateway_host
    address = settings.gateway_addresses or (f"[{host}]" if ":" in host else host) + f":{state.gateway_port}"
    return WantedPlaces(
        warehouse=settings.given_warehouse,
        gateway=address,
        first_warehouse=state.warehouse,
        first_gateway=address,
        owns_gateway=state.embedded,
    )


def _gateway_login(settings: Settings, directory: Path, state: StackState) -> GatewayLogin:
    """How Postgres logs in at the stack's gateway: its own certificate is verified; a gateway given by
    gateway_addresses keeps the TLS options it has."""
    tls: GatewayTls = "left"
    if state.gateway_cert is not None and settings.gateway_addresses is None:
        tls = "verified" if state.embedded else "bound"
    if tls == "verified" and state.gateway_cert is not None:
        (directory / "postgres" / ROOT_CERTIFICATE).write_bytes(Path(state.gateway_cert).read_bytes())
    return GatewayLogin(password=keep_password(directory, "gateway_password"), tls=tls)


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
def _lock_unless_up(directory: Path, report_progress: ProgressReporter) -> Iterator[StackLock | None]:
    """Hold the stack's lock while inside; None when the stack is up. While another process starts or stops it, wait for
    the outcome."""
    deadline = time.monotonic() + DETACH_TIMEOUT_SECONDS
    is_told = False
    while True:
        with try_lock(directory) as lock:
            if lock is not None:
                lock.record_holder()
                yield lock
                return
        if read_up_state(directory) is not None:
            yield None
            return
        if time.monotonic() > deadline:
            raise StackNotReadyInTime(
                f"Another process has been starting or stopping the stack in {directory} for "
                f"{DETACH_TIMEOUT_SECONDS:.0f} seconds.",
                hint=f"`thermocline down --dir {directory}` ends it.",
            )
        if not is_told:
            report_progress(f"another process starts or stops the stack in {directory}; waiting for it")
            is_told = True
        time.sleep(_LOCK_POLL_SECONDS)
