"""A wait that ran out leaves with 124, whichever command waited."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.postgres.conftest import Shop

from thermocline.errors import StackNotReadyInTime, WaitedTooLong
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.stack import lifecycle

EVENTS = (
    (
        "create table public.events (id bigint not null, ts timestamptz not null, primary key (id, ts)) "
        "partition by range (ts)"
    ),
    "create table public.e1 partition of public.events for values from ('2026-01-01') to ('2026-02-01')",
)


@pytest.mark.conforms("O-028", "M-147")
@pytest.mark.parametrize("verb", ["tier", "fold", "maintain"])
def test_a_request_that_the_worker_does_not_finish_in_time_leaves_with_124(shop: Shop, verb: str) -> None:
    shop.run(*EVENTS)
    shop.register()
    command = [sys.executable, "-m", "thermocline", verb, "public.events", "--dsn", shop.dsn, "--timeout", "0.3"]
    with closing(connect(shop.dsn, autocommit=True, application_name="thermocline worker")) as alive:
        alive.execute(
            "insert into thermocline.workers (name, pid, host, backend_pid) values ('w1', 1, 'h', pg_backend_pid())"
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 124, done.stderr
    assert "not finished within" in done.stderr


@pytest.mark.conforms("O-028")
@pytest.mark.parametrize("verb", ["tier", "fold", "maintain"])
def test_ctrl_c_in_a_wait_says_that_the_worker_goes_on_and_how_to_stop_it(shop: Shop, verb: str) -> None:
    shop.run(*EVENTS)
    shop.register()
    command = [sys.executable, "-m", "thermocline", verb, "public.events", "--dsn", shop.dsn]
    with closing(connect(shop.dsn, autocommit=True, application_name="thermocline worker")) as alive:
        alive.execute(
            "insert into thermocline.workers (name, pid, host, backend_pid) values ('w1', 1, 'h', pg_backend_pid())"
        )
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            while "asking worker" not in (line := waiting.stderr.readline()):
                assert line, "it ended before it waited"
            waiting.send_signal(signal.SIGINT)
            told = waiting.stderr.read()
    assert waiting.returncode == 130, told
    assert "the worker goes on with public.events by itself" in told
    assert "`thermocline pause public.events` stops it" in told


@pytest.mark.conforms("O-028")
def test_every_error_of_a_wait_that_ran_out_says_124() -> None:
    assert {problem.exit_code for problem in (WaitedTooLong, WaitedTooLong, StackNotReadyInTime)} == {124}


@pytest.mark.conforms("O-028")
def test_a_stack_that_does_not_get_up_in_time_leaves_with_124(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "DETACH_TIMEOUT_SECONDS", 0.2)
    with subprocess.Popen(["sleep", "60"]) as slow:
        with pytest.raises(StackNotReadyInTime, match="was not up within") as waited:
            lifecycle.wait_until_up(tmp_path, slow)
        slow.kill()
    assert waited.value.exit_code == 124
