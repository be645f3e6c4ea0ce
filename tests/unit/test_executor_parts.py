"""Parts of the executors that need no process: outcomes and frames between processes, errors, fingerprints."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import psycopg
import pytest

from thermocline.errors import ExecutorCrashed, LakeFileUnreadable
from thermocline.gateway.executor.channel import ChannelClosed, make_channel, receive_message, send_message
from thermocline.gateway.executor.memory_limits import MemoryLimits, MemoryShares
from thermocline.gateway.executor.outcomes import Cancelled, ExecutorFailed, decode_problem, encode_problem
from thermocline.gateway.sessions.error_responses import render_error
from thermocline.gateway.sessions.statement_control import fingerprint
from thermocline.gateway.sql.values import NotProvable


def test_a_lost_connection_to_postgres_has_the_sqlstate_of_one() -> None:
    assert b"\0C08006\0" in render_error(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert b"\0C57P01\0" in render_error(psycopg.errors.AdminShutdown("terminating connection"))
    assert b"\0C58000\0" in render_error(ExecutorCrashed())


def test_statements_that_differ_in_constants_and_spaces_have_one_fingerprint() -> None:
    asked = "select a from t1 where b = 'it''s' and c > 10.5"
    assert fingerprint(asked) == fingerprint("select  a from t1\nwhere b = '' and c > 7")
    assert fingerprint(asked) != fingerprint(asked.replace("t1", "t2"))


@pytest.mark.parametrize(
    "problem", [Cancelled(), NotProvable("a reason"), MemoryError("512 MB"), LakeFileUnreadable("It is gone.")]
)
def test_the_outcome_of_a_statement_crosses_processes(problem: Exception) -> None:
    arrived = decode_problem(encode_problem(problem))
    assert (type(arrived), str(arrived)) == (type(problem), str(problem))


def test_an_unknown_problem_of_an_executor_arrives_as_text() -> None:
    try:
        raise KeyError("within")
    except KeyError as problem:
        arrived = decode_problem(encode_problem(problem))
    assert isinstance(arrived, ExecutorFailed)
    assert "KeyError: 'within'" in str(arrived)


def test_frames_of_any_size_arrive_whole_and_a_torn_one_is_no_frame() -> None:
    ours, theirs = make_channel()
    body = bytes(range(256)) * 20_000
    with ours:
        with theirs:
            sending = threading.Thread(target=send_message, args=(theirs, b"R", b"head", body))
            sending.start()
            message = receive_message(ours)
            sending.join()
            assert (message.kind, bytes(message.head), bytes(message.body)) == (b"R", b"head", body)
            send_message(theirs, b"Z")
            assert receive_message(ours).kind == b"Z"
            theirs.sendall(b"R")
        with pytest.raises(ChannelClosed):
            receive_message(ours)


def test_whole_queries_at_once_get_less_each_and_together_at_most_twice_the_limit() -> None:
    shares = MemoryShares(MemoryLimits(whole_bytes=1_600))
    with ExitStack() as running:
        given = [running.enter_context(shares.share()) for _ in range(16)]
    assert given[:4] == [800, 400, 200, 100]
    assert min(given) == 100
    assert sum(given) <= 2 * 1_600 + 100
    with shares.share() as alone:
        assert alone == 800
