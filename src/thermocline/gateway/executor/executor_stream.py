"""A statement that an executor runs, as a source of rows in the gateway's process. All calls block."""

from __future__ import annotations

import json
import pickle
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from thermocline.errors import ExecutorCrashed
from thermocline.gateway.executor.channel import (
    ChannelClosed,
    Message,
    StreamReply,
    StreamRequest,
    receive_message,
    send_message,
)
from thermocline.gateway.executor.executor_pool import Lease, SessionExecutor
from thermocline.gateway.executor.jobs import Job, ScanJob
from thermocline.gateway.executor.outcomes import Cancelled, decode_problem
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat

_TURN_SECONDS = 0.2
_GRACE_SECONDS = 5.0
_SHARED_GRACE_SECONDS = 60.0
_ROW_REPLIES = frozenset({StreamReply.ROWS, StreamReply.LAST_ROWS, StreamReply.NO_ROWS, StreamReply.PROBLEM})
_VALUE_REPLIES = frozenset({StreamReply.VALUE, StreamReply.PROBLEM})


class ExecutorStream:
    """One statement: opened with its first request, ended by its last row, an error or `close`."""

    def __init__(self, executors: SessionExecutor, job: Job, on_answer: Callable[[], None] = lambda: None) -> None:
        """`on_answer` is called when the first request was answered without an error."""
        self._executors = executors
        self._job = job
        self._holds_rows = isinstance(job, ScanJob) and job.holds_rows
        self._on_answer = on_answer
        self._owning = threading.Lock()
        """Held where `_lease` changes, and while the executor is interrupted: it is another session's afterwards."""
        self._lease: Lease | None = None
        self._has_place = False
        self._number = 0
        self._channel: socket.socket | None = None
        self._asking = threading.Lock()
        self._is_ended = False
        self._has_all_rows = False
        self._problem: Exception | None = None
        self._stopped = False
        self._interrupted_at: float | None = None

    def start(self) -> dict[str, int]:
        """Compute up to the first rows; returns the rows of each read of Postgres, by its name."""
        return dict(json.loads(bytes(self._ask(StreamRequest.START).body)))

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        if self._has_all_rows:
            return None
        message = self._ask(StreamRequest.NEXT, pickle.dumps(shape))
        self._has_all_rows = message.kind in (StreamReply.LAST_ROWS, StreamReply.NO_ROWS)
        if message.kind == StreamReply.NO_ROWS:
            return None
        return EncodedRows(message.body, np.frombuffer(message.head, np.int64))

    def arrays(self) -> list[bytes]:
        """All rows as arrays in Postgres' text form, one for each column."""
        message = self._ask(StreamRequest.ARRAYS)
        found, at = [], 0
        for (size,) in struct.iter_unpack(">Q", message.head):
            found.append(bytes(message.body[at : at + size]))
            at += size
        return found

    def count_rows(self) -> int:
        """Read to the end; returns the number of rows."""
        return int(json.loads(bytes(self._ask(StreamRequest.COUNT).body)))

    def interrupt(self) -> None:
        """Stop what runs. Called again until it ends; an executor that does not react is killed."""
        self._stopped = True
        with self._owning:
            if self._lease is None:
                return
            now = time.monotonic()
            if self._interrupted_at is None:
                self._interrupted_at = now
            self._lease.executor.interrupt(self._number)
            if now - self._interrupted_at > _GRACE_SECONDS:
                self._lease.executor.kill()

    def close(self) -> None:
        """Let go of everything; the executor runs nothing of the statement any more."""
        while not self._asking.acquire(timeout=_TURN_SECONDS):
            self.interrupt()  # the session ends while a request runs
        try:
            self._end()
        finally:
            self._asking.release()

    def _end(self) -> None:
        self._is_ended = True
        lease, channel = self._lease, self._channel
        if lease is None or channel is None:
            return
        try:
            channel.settimeout(_GRACE_SECONDS)
            send_message(channel, StreamRequest.CLOSE)
            self._interrupt_until_reply(lease, channel)
            while (message := receive_message(channel)).kind != StreamReply.ENDED:
                self._interrupt_until_reply(lease, channel)
            self._leave(lease, message)
        except Exception as problem:
            self._give_up(lease, problem)

    def _interrupt_until_reply(self, lease: Lease, channel: socket.socket) -> None:
        """Wait for a reply. An executor that does not react is killed; later, if other results are open on it."""
        begun, replies = time.monotonic(), select.poll()
        replies.register(channel, select.POLLIN)
        while True:
            lease.executor.interrupt(self._number)
            if replies.poll(_TURN_SECONDS * 1000):
                return
            if time.monotonic() - begun > (_GRACE_SECONDS if lease.users == 1 else _SHARED_GRACE_SECONDS):
                lease.executor.kill()
                raise ChannelClosed

    def _ask(self, kind: bytes, body: bytes = b"") -> Message:
        with self._asking:
            return self._exchange(kind, body)

    def _exchange(self, kind: bytes, body: bytes) -> Message:
        is_first = self._lease is None
        lease, channel = self._open()
        self._wait_for_turn()
        try:
            send_message(channel, kind, body=body)
            message = receive_message(channel)
            if message.kind not in (_ROW_REPLIES if kind == StreamRequest.NEXT else _VALUE_REPLIES):
                raise ValueError(f"reply {message.kind!r} to request {kind!r}")
            if message.kind == StreamReply.PROBLEM:
                self._problem = decode_problem(message.body)
            if message.kind not in (StreamReply.ROWS, StreamReply.VALUE):
                self._is_ended = True
                self._leave(lease, receive_message(channel))
        except Exception as problem:
            raise self._give_up(lease, problem) from problem
        finally:
            self._executors.pool.turns.release()
        if self._problem is not None:
            raise self._problem
        if is_first:
            self._on_answer()
        return message

    def _open(self) -> tuple[Lease, socket.socket]:
        if self._problem is not None:
            raise self._problem  # a result that failed never looks as if it had ended
        if self._is_ended or self._stopped:
            raise Cancelled
        if self._lease is not None and self._channel is not None:
            return self._lease, self._channel
        # The executor first: whoever may hold rows has one, and never waits for it.
        lease = self._executors.take(lambda: self._stopped)
        try:
            if self._holds_rows:
                self._executors.held_rows.take(lambda: self._stopped)
                self._has_place = True
            number, channel = lease.executor.open_stream(self._job)
        except ChannelClosed as closed:
            raise self._lose(lease) from closed
        except BaseException:
            self._forget()
            self._executors.give_back(lease)
            raise
        with self._owning:
            self._lease, self._number, self._channel = lease, number, channel
        return lease, channel

    def _wait_for_turn(self) -> None:
        while not self._executors.pool.turns.acquire(timeout=_TURN_SECONDS):
            if self._stopped:
                raise Cancelled

    def _leave(self, lease: Lease, ended: Message) -> None:
        """The executor has let go of the statement, and may have the next one."""
        if ended.kind != StreamReply.ENDED:
            raise ValueError(f"reply {ended.kind!r} after the last one")
        (lease.executor.resident_bytes,) = struct.unpack(">Q", ended.head)
        self._forget()
        self._executors.give_back(lease)

    def _give_up(self, lease: Lease, problem: Exception) -> Exception:
        """The executor is gone, or what it sends cannot be read: then nothing that it sends later can be either."""
        if self._lease is None:
            return problem  # it was given back before
        lost = self._lose(lease)
        if isinstance(problem, MemoryError):
            self._problem = lost = problem
        return lost

    def _lose(self, lease: Lease) -> Exception:
        """The executor is gone."""
        self._is_ended = True
        how = self._executors.lose(lease)
        self._forget()
        self._executors.give_back(lease)
        crashed = ExecutorCrashed(f"The process that ran this statement {how}.")
        self._problem = Cancelled() if self._stopped else crashed
        return self._problem

    def _forget(self) -> None:
        with self._owning:
            channel, self._channel, self._lease = self._channel, None, None
        if channel is not None:
            channel.close()
        if self._has_place:
            self._has_place = False
            self._executors.held_rows.give_back()


class ExecutorRows:
    """A statement with the columns of its result."""

    def __init__(self, fields: Sequence[Field], stream: ExecutorStream) -> None:
        self._fields = tuple(fields)
        self._stream = stream

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        return self._stream.next_rows(shape)

    def interrupt(self) -> None:
        self._stream.interrupt()

    def close(self) -> None:
        self._stream.close()
