"""What a stack remembers in DIR/stack.json: its ports, its DSNs and the processes it started.

A process is recorded by pid and start time, because the kernel gives the pid of a dead process to another one.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from thermocline.errors import DirectoryUnusable, StackStateUnreadable

ProcessState = Literal["starting", "running", "waiting to restart", "stopped"]
StackPhase = Literal["starting", "up", "down"]
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process of the stack."""

    name: str
    pid: int | None = None
    started: float | None = None
    state: ProcessState = "stopped"
    restarts: int = 0

    def is_alive(self) -> bool:
        """Whether this very process, not another with its pid, still runs."""
        if self.pid is None or self.started is None:
            return False
        import psutil  # most commands ask about no process, and it takes a while to load

        try:
            process = psutil.Process(self.pid)
            return bool(abs(process.create_time() - self.started) < 0.05 and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """Everything that `status`, `down` and the next `up` need to know."""

    phase: StackPhase
    postgres_dsn: str
    postgres_port: int | None
    gateway_host: str
    gateway_port: int
    gateway_dsn: str
    http_host: str
    http_port: int
    warehouse: str
    supervisor: ProcessRecord
    gateway_http_host: str = "127.0.0.1"
    gateway_http_port: int | None = None
    gateway_cert: str | None = None
    gateway_key: str | None = None
    processes: tuple[ProcessRecord, ...] = ()

    @property
    def embedded(self) -> bool:
        return self.postgres_port is not None

    @property
    def gateway_http_url(self) -> str:
        return f"http://{self.gateway_http_host}:{self.gateway_http_port}"

    @property
    def gateway_metrics_url(self) -> str:
        return f"{self.gateway_http_url}/metrics"

    @property
    def api_url(self) -> str:
        return f"http://{self.http_host}:{self.http_port}"

    def with_process(self, record: ProcessRecord) -> StackState:
        others = tuple(record if other.name == record.name else other for other in self.processes)
        names = {other.name for other in self.processes}
        return replace(self, processes=others if record.name in names else (*others, record))


def record_of(name: str, pid: int, state: ProcessState, restarts: int = 0) -> ProcessRecord:
    """The record of a living process; a process that ended meanwhile is recorded as stopped."""
    import psutil

    try:
        return ProcessRecord(
            name=name, pid=pid, started=psutil.Process(pid).create_time(), state=state, restarts=restarts
        )
    except psutil.Error:
        return ProcessRecord(name=name, restarts=restarts)


def state_path(directory: Path) -> Path:
    return directory / "stack.json"


def read_state(directory: Path) -> StackState | None:
    """The recorded state; None where no stack was made."""
    path = state_path(directory)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw.pop("format") != _FORMAT:
            raise StackStateUnreadable(
                f"{path} was written by another version of thermocline.", hint="Use that version, or another --dir."
            )
        raw["supervisor"] = ProcessRecord(**raw["supervisor"])
        raw["processes"] = tuple(ProcessRecord(**entry) for entry in raw["processes"])
        return StackState(**raw)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise DirectoryUnusable(f"{path} cannot be read: {problem.strerror}.") from problem
    except (ValueError, KeyError, TypeError) as problem:
        raise StackStateUnreadable(f"{path} is damaged.") from problem


def write_state(directory: Path, state: StackState) -> None:
    """Replace the recorded state, whole or not at all."""
    path = state_path(directory)
    fresh = path.with_name(f".stack.{secrets.token_hex(4)}.json")
    try:
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
            json.dump({"format": _FORMAT, **asdict(state)}, handle, indent=2)
        fresh.replace(path)
    except OSError as problem:
        fresh.unlink(missing_ok=True)
        raise DirectoryUnusable(f"{path} cannot be written: {problem.strerror}.") from problem
