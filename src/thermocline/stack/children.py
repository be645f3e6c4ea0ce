"""The processes of a stack. Each has its own session and ends with the supervisor; a stop also ends what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import psutil

from thermocline.errors import DirectoryUnusable
from thermocline.runtime.launch import launch_command
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.stack.state import ProcessRecord

STOP_TIMEOUT_SECONDS = 30.0


class Child(Protocol):
    """What the supervisor needs of a process."""

    name: str
    log_path: Path

    def start(self) -> int: ...
    def exit_status(self) -> int | None: ...
    def stop(self) -> None: ...


class ProgramChild:
    """`thermocline <name>` as a child."""

    def __init__(self, name: str, *, log_path: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log_path = log_path
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        command = [sys.executable, "-m", "thermocline", self.name]
        try:
            log = self.log_path.open("ab")
        except OSError as problem:
            raise DirectoryUnusable(f"The log {self.log_path} cannot be written: {problem.strerror}.") from problem
        with log:
            self._process = subprocess.Popen(
                launch_command(command, die_signal=signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=self._environment,
            )
        return self._process.pid

    def exit_status(self) -> int | None:
        """None while it runs. When it ended, the processes that it left (Java, for example) are ended too."""
        if self._process is None:
            return None
        status = self._process.poll()
        if status is not None:
            end_session(self._process.pid)
        return status

    def stop(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        end_session(self._process.pid)
        self._process = None


class PostgresChild:
    """The embedded Postgres as a child."""

    name = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.log_path = server.log_path
        self._started = False

    def start(self) -> int:
        self.server.init()
        self.server.start()
        self._started = True
        pid = self.server.pid
        assert pid is not None
        return pid

    def exit_status(self) -> int | None:
        return None if self.server.pid is not None or not self._started else -1

    def stop(self) -> None:
        self.server.stop("fast")
        self._started = False


def end_session(session_id: int) -> None:
    """Kill every process that still belongs to the session which this process led."""
    for process in _session_members(session_id):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def end_process(
    record: ProcessRecord, gentle: signal.Signals = signal.SIGTERM, timeout_seconds: float = STOP_TIMEOUT_SECONDS
) -> bool:
    """End a recorded process that may not be our child, and its session; True when it was alive."""
    alive = record.is_alive()
    assert record.pid is None or record.pid > 1
    if alive and record.pid is not None:
        _send(record.pid, gentle)
        if not _wait_gone(record, timeout_seconds):
            _send(record.pid, signal.SIGKILL)
            _wait_gone(record, 10.0)
    if record.pid is not None and record.started is not None:
        for process in _session_members(record.pid):
            # A session is named by a pid, and a pid may have been given out again: only what is younger than our
            # process can be ours.
            if not record.is_alive() and process.pid != record.pid and process.create_time() >= record.started:
                _send(process.pid, signal.SIGKILL)
    return alive


def _session_members(session_id: int) -> list[psutil.Process]:
    members = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session_id and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return members


def _send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return


def _wait_gone(record: ProcessRecord, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while record.is_alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
