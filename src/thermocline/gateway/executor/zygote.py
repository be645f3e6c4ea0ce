"""The process that executors are forked from. It has imported most of what they need and runs one thread.

    python -P -m thermocline.gateway.executor.zygote CONTROL_FILE_DESCRIPTOR

A forked executor is ready in a fraction of the time that the imports take, and shares their memory. The gateway itself
is never forked: it has threads. The zygote ends when the gateway's end of the control socket closes, however the
gateway ended, and the kernel then kills the executors. So it ends for no other reason and answers every request at
once: a fork that fails is an answer, and so is an executor that is not dead yet.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import socket
import struct
import sys

from thermocline.runtime.launch import bind_to_parent

FORK, REAP = b"f", b"r"
REQUEST = struct.Struct(">cI")
ANSWER = struct.Struct(">i")
"""A pid or a wait status; below zero it is an error number."""
PENDING = -errno.EAGAIN
"""The executor is not dead yet: ask again."""

_LIBRARIES = (
    "pandas",  # DuckDB looks for it at its first parameter
    "pyarrow.compute",
    "pyarrow.parquet",
    "adbc_driver_postgresql.dbapi",
    "thermocline.gateway.executor.jobs",
    "thermocline.gateway.sql.query.heap_transfer",
    "thermocline.gateway.wire.row_encoding",
    "thermocline.runtime.file_io",
)


def main() -> None:
    """Fork and reap on request."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A terminal or a service manager signals the whole group; the gateway decides when statements end.
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    _import_libraries()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads, and a fork copies only one")
    gc.collect()
    gc.freeze()
    control.send(ANSWER.pack(0))
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, REQUEST.size, 1)
        if len(data) < REQUEST.size:
            return
        kind, pid = REQUEST.unpack(data)
        control.send(ANSWER.pack(_fork(control, descriptors) if kind == FORK else _reap(pid)))


def _import_libraries() -> None:
    """Import what takes long, except DuckDB, which starts a thread when it is imported."""
    for name in _LIBRARIES:
        importlib.import_module(name)


def _fork(control: socket.socket, descriptors: list[int]) -> int:
    """Fork an executor that serves the socket; returns its pid, or why it cannot be forked."""
    if not descriptors:
        return -errno.EMFILE  # the kernel drops a descriptor that it cannot give to this process
    zygote, descriptor = os.getpid(), descriptors[0]
    try:
        pid = os.fork()
    except OSError as problem:
        os.close(descriptor)
        return -(problem.errno or errno.EAGAIN)
    if pid:
        os.close(descriptor)
        return pid
    status = 1
    try:
        bind_to_parent(zygote, signal.SIGKILL)
        control.close()
        # DuckDB comes with it, and only here: a fork copies none of its threads.
        from thermocline.gateway.executor.execution.executor_process import run_executor

        run_executor(socket.socket(fileno=descriptor))
        status = 0
    finally:
        os._exit(status)


def _reap(pid: int) -> int:
    """Kill an executor, unless it is dead already, and return its wait status once it is. The pid is its own until
    then."""
    try:
        os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, os.WNOHANG)
    except OSError as problem:
        return -(problem.errno or errno.ESRCH)
    return status if ended else PENDING


if __name__ == "__main__":
    main()
