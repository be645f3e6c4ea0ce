"""Executors as the gateway sees them: started through the zygote, asked, interrupted, ended."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from thermocline.errors import GatewayBusy, GatewayNotStarted
from thermocline.gateway.executor import zygote
from thermocline.gateway.executor.channel import (
    ChannelClosed,
    Control,
    StreamRequest,
    make_channel,
    receive_message,
    send_message,
)
from thermocline.gateway.executor.jobs import ExecutorConfig, Job

log = logging.getLogger(__name__)

_ONE_THREAD: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Libraries that start threads when they are imported do not, in the zygote."""

_START_SECONDS = 60.0
_END_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 0.01


class Zygote:
    """The zygote of this process, started when the first executor is, and again when it was killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._late_answers = 0

    def fork(self, descriptor: int) -> tuple[int, int]:
        """Fork an executor that serves this socket; returns its pid and the zygote's. If the fork fails, the zygote and
        its executors stay."""
        with self._lock:
            for attempt in range(2):
                control, process = self._running()
                try:
                    socket.send_fds(control, [zygote.REQUEST.pack(zygote.FORK, 0)], [descriptor])
                    pid = self._answer(control)
                except (OSError, ChannelClosed):
                    self._forget()
                    if attempt:
                        raise
                    continue
                if pid < 0:
                    raise GatewayNotStarted(f"An executor of the gateway did not start: {os.strerror(-pid)}.")
                return pid, process.pid
        raise AssertionError

    def reap(self, pid: int, parent: int) -> int | None:
        """End an executor and return its wait status; none when its zygote is gone, and so it is gone too, or when it
        does not end in time. Others may fork and reap meanwhile."""
        deadline = time.monotonic() + _END_SECONDS
        while (status := self._ask_to_reap(pid, parent)) == zygote.PENDING:
            if time.monotonic() >= deadline:
                log.error("executor %d was killed and does not end", pid)
                return None
            time.sleep(_ASK_AGAIN_SECONDS)
        return None if status is None or status < 0 else status

    def _ask_to_reap(self, pid: int, parent: int) -> int | None:
        with self._lock:
            if self._control is None or self._process is None or self._process.pid != parent:
                return None
            try:
                self._control.sendall(zygote.REQUEST.pack(zygote.REAP, pid))
                return self._answer(self._control)
            except TimeoutError:
                self._late_answers += 1  # nobody else's executor ends because this one cannot be waited for
                return None
            except (OSError, ChannelClosed):
                self._forget()
                return None

    def _running(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        if self._control is not None and self._process is not None:
            return self._control, self._process
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", zygote.__name__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={**os.environ, **_ONE_THREAD}
            )
        self._control = ours
        ours.settimeout(_START_SECONDS)
        try:
            self._answer(ours)
        except (OSError, ChannelClosed) as problem:
            self._forget()
            raise GatewayNotStarted("The process that the gateway's executors come from did not start.") from problem
        return ours, self._process

    def _answer(self, control: socket.socket) -> int:
        """The answer to the last request; those that came too late are read before it."""
        while True:
            data = control.recv(zygote.ANSWER.size)
            if len(data) < zygote.ANSWER.size:
                raise ChannelClosed
            if not self._late_answers:
                (number,) = zygote.ANSWER.unpack(data)
                return int(number)
            self._late_answers -= 1

    def _forget(self) -> None:
        control, process, self._control, self._process = self._control, self._process, None, None
        self._late_answers = 0
        if control is not None:
            control.close()
        if process is not None:
            process.kill()
            process.wait()


ZYGOTE = Zygote()
"""One for all gateways of this process. It ends with the process."""


class Executor:
    """One executor process."""

    def __init__(self, config: ExecutorConfig) -> None:
        """Start it; returns when it can take a statement."""
        self._spill_path = Path(config.spill_path)
        self._numbers = count(1)
        self._sending = threading.Lock()
        self._ending = threading.Lock()
        self._control, theirs = make_channel()
        try:
            with theirs:
                self.pid, self._parent = ZYGOTE.fork(theirs.fileno())
        except BaseException:
            self._control.close()
            raise
        self.statements = 0
        self.is_ended = False
        self.was_killed = False
        try:
            self._control.settimeout(_START_SECONDS)
            send_message(self._control, StreamRequest.JOB, body=pickle.dumps(config))
            (self.start_bytes,) = struct.unpack(">Q", receive_message(self._control).body)
            self._control.settimeout(None)
        except (OSError, ChannelClosed) as problem:
            self.end()
            raise GatewayNotStarted("An executor of the gateway did not start.") from problem
        self.resident_bytes = self.start_bytes

    def open_stream(self, job: Job) -> tuple[int, socket.socket]:
        """Send a statement; returns the number and the channel of its stream."""
        body = pickle.dumps(job)
        try:
            ours, theirs = make_channel()
        except OSError as problem:
            raise GatewayBusy(f"The gateway cannot open a channel to an executor: {problem.strerror}.") from problem
        self.statements += 1
        try:
            with theirs, self._sending:
                number = next(self._numbers)
                socket.send_fds(self._control, [Control.LAYOUT.pack(Control.OPEN, number)], [theirs.fileno()])
            send_message(ours, StreamRequest.JOB, body=body)
        except Exception as problem:
            ours.close()
            raise ChannelClosed from problem
        return number, ours

    def interrupt(self, number: int) -> None:
        """Interrupt the statement of a stream; callers repeat it until the statement ends."""
        with self._sending, suppress(OSError):
            self._control.send(Control.LAYOUT.pack(Control.INTERRUPT, number), socket.MSG_DONTWAIT)

    def is_alive(self) -> bool:
        """Whether an idle executor is still there."""
        try:
            return bool(self._control.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it: it does not react to an interrupt."""
        with self._ending:
            if not self.is_ended:
                self.was_killed = True
                os.kill(self.pid, signal.SIGKILL)

    def end(self) -> str:
        """End it and remove its spill files; returns how it had ended before, in words."""
        with self._ending:
            # From here on the pid may be another process'.
            self.is_ended = True
        self._control.close()
        status = ZYGOTE.reap(self.pid, self._parent)
        shutil.rmtree(self._spill_path, ignore_errors=True)
        return _describe_status(status)


def _describe_status(status: int | None) -> str:
    if status is None:
        return "was lost"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
