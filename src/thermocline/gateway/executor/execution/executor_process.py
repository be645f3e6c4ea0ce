"""An executor: a process that runs the statements of one session at a time.

Its main thread listens on the control channel: a new stream (a socket) for a statement, or the number of a stream to
interrupt. Each stream has a thread. The first frame is the job; then requests and replies take turns. A reply that ends
the statement, in a row or in an error, is sent after everything of the statement was let go of.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import resource
import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path

from thermocline.gateway.executor.channel import (
    ChannelClosed,
    Control,
    Message,
    Piece,
    StreamReply,
    StreamRequest,
    receive_message,
    send_message,
)
from thermocline.gateway.executor.execution.bulk_reader import BulkReads
from thermocline.gateway.executor.execution.duckdb_databases import DuckDbDatabases
from thermocline.gateway.executor.execution.scan_execution import ScanExecution
from thermocline.gateway.executor.execution.whole_execution import WholeQueryExecution
from thermocline.gateway.executor.jobs import ExecutorConfig, Job, ScanJob
from thermocline.gateway.executor.outcomes import Cancelled, encode_problem
from thermocline.gateway.wire.row_encoding import EncodedRows

_MIN_PREFETCH_ROWS = 8_192
_OOM_SCORE = "500"
_NO_CORE_FILE = (1, 1)
"""Linux writes no core file below a page, and gives none to a program either if the limit is 1."""
_PAGE_BYTES = resource.getpagesize()

SentReply = tuple[bytes, Piece, Piece]
Execution = ScanExecution | WholeQueryExecution


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def run_executor(control: socket.socket) -> None:
    """Serve until the gateway closes the control channel."""
    faulthandler.enable()
    with suppress(OSError):
        # When memory runs out, the kernel ends a statement rather than the gateway.
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")
    with suppress(OSError, ValueError):
        # Gigabytes of rows would be written before the process ends.
        resource.setrlimit(resource.RLIMIT_CORE, _NO_CORE_FILE)
    config = pickle.loads(receive_message(control).body)
    if not isinstance(config, ExecutorConfig):
        raise TypeError(config)
    databases, reads = DuckDbDatabases(config), BulkReads(config.dsn)
    send_message(control, StreamReply.VALUE, body=struct.pack(">Q", resident_bytes()))
    streams: dict[int, _Stream] = {}
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, Control.LAYOUT.size, 1)
        if len(data) < Control.LAYOUT.size:
            return
        kind, number = Control.LAYOUT.unpack(data)
        if kind == Control.OPEN:
            stream = _Stream(socket.socket(fileno=descriptors[0]), databases, reads)
            streams[number] = stream
            threading.Thread(target=_serve, args=(streams, number, stream), name="statement", daemon=True).start()
        elif (stream_ := streams.get(number)) is not None:
            stream_.interrupt()


def _serve(streams: dict[int, _Stream], number: int, stream: _Stream) -> None:
    try:
        stream.serve()
    except ChannelClosed:
        os._exit(0)
    finally:
        streams.pop(number, None)


class _Stream:
    """One statement: its channel and what runs."""

    def __init__(self, channel: socket.socket, databases: DuckDbDatabases, reads: BulkReads) -> None:
        self._channel = channel
        self._databases = databases
        self._reads = reads
        self._execution: Execution | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def interrupt(self) -> None:
        with self._lock:
            self._stopped = True
            if self._execution is not None:
                self._execution.interrupt()

    def serve(self) -> None:
        """Serve requests until the statement ends."""
        with self._channel:
            job: Job = pickle.loads(receive_message(self._channel).body)
            request = receive_message(self._channel)
            try:
                execution = self._begin(job)
                reply = self._run(execution, request)
                while reply[0] in (StreamReply.ROWS, StreamReply.VALUE):
                    send_message(self._channel, *reply)
                    following = self._prefetch(execution, request, reply)
                    request = receive_message(self._channel)
                    if following is None or request.kind != StreamRequest.NEXT:
                        following = self._run(execution, request)
                    reply = following
            except ChannelClosed:
                raise
            except BaseException as problem:
                reply = (StreamReply.PROBLEM, b"", encode_problem(problem))
            self._end(reply)

    def _end(self, reply: SentReply) -> None:
        """Let go of the statement, then say that it ended and how much memory this process has."""
        with self._lock:
            execution, self._execution = self._execution, None
        if execution is not None:
            try:
                execution.close()
            except BaseException as problem:
                reply = (StreamReply.PROBLEM, b"", encode_problem(problem))
        send_message(self._channel, *reply)
        send_message(self._channel, StreamReply.ENDED, struct.pack(">Q", resident_bytes()))

    def _begin(self, job: Job) -> Execution:
        execution = (
            ScanExecution(self._databases, job)
            if isinstance(job, ScanJob)
            else WholeQueryExecution(self._databases, self._reads, job)
        )
        with self._lock:
            self._execution = execution
            if self._stopped:
                raise Cancelled
        return execution

    def _prefetch(self, execution: Execution, request: Message, sent: SentReply) -> SentReply | None:
        """Compute the next rows while the gateway sends the last ones, if those were many."""
        if sent[0] != StreamReply.ROWS or len(sent[1]) < 8 * _MIN_PREFETCH_ROWS:
            return None
        try:
            return self._run(execution, request)
        except Exception as problem:
            return StreamReply.PROBLEM, b"", encode_problem(problem)

    @staticmethod
    def _run(execution: Execution, request: Message) -> SentReply:
        match request.kind, execution:
            case StreamRequest.NEXT, _:
                rows = execution.next_rows(pickle.loads(request.body))
                if rows is None:
                    return StreamReply.NO_ROWS, b"", b""
                return (StreamReply.LAST_ROWS if execution.is_ended else StreamReply.ROWS, *_pieces(rows))
            case StreamRequest.START, WholeQueryExecution():
                return StreamReply.VALUE, b"", json.dumps(execution.start()).encode()
            case StreamRequest.ARRAYS, WholeQueryExecution():
                arrays = execution.arrays()
                return StreamReply.VALUE, struct.pack(f">{len(arrays)}Q", *map(len, arrays)), b"".join(arrays)
            case StreamRequest.COUNT, WholeQueryExecution():
                return StreamReply.VALUE, b"", json.dumps(execution.count_rows()).encode()
            case StreamRequest.CLOSE, _:
                return StreamReply.NO_ROWS, b"", b""
        raise ValueError(f"request {request.kind!r}")


def _pieces(rows: EncodedRows) -> tuple[memoryview, memoryview]:
    return memoryview(rows.offsets.tobytes()), rows.data
