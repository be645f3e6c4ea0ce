"""up and down of one stack at the same time, from several processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.stack.conftest import CommandLine, processes_of

Up = Callable[..., "subprocess.Popen[str]"]


class SilentServer:
    """Accepts connections and never answers: an `up` with its DSN prepares until it is ended."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = listening.getsockname()[1]
        self._listening = listening
        self._accepted: list[socket.socket] = []

    def wait_for_client(self) -> None:
        self._accepted.append(self._listening.accept()[0])

    def close(self) -> None:
        for accepted in self._accepted:
            accepted.close()


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        with closing(SilentServer(listening)) as server:
            yield server


@pytest.fixture
def up(stack_dir: Path, silent: SilentServer) -> Iterator[Up]:
    """`thermocline up` in the background, with the DSN of the silent server."""
    started: list[subprocess.Popen[str]] = []
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("THERMOCLINE_")},
        "THERMOCLINE_DSN": f"host=127.0.0.1 port={silent.port} user=u dbname=d",
        "THERMOCLINE_CONNECT_TIMEOUT_SECONDS": "120",
    }

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "thermocline", "up", "--dir", str(stack_dir), *arguments]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.mark.parametrize("arguments", [(), ("--detach",)])
def test_down_ends_an_up_that_is_preparing(
    thermocline: CommandLine, stack_dir: Path, silent: SilentServer, up: Up, arguments: tuple[str, ...]
) -> None:
    preparing = up(*arguments)
    silent.wait_for_client()
    done = thermocline("down", "--dir", stack_dir)
    assert (done.code, done.out) == (0, "stopped supervisor\n"), done.err
    assert preparing.wait(timeout=30) == -signal.SIGTERM
    assert processes_of(stack_dir) == []
    none = thermocline("down", "--dir", stack_dir)
    assert (none.code, "error TC112" in none.err) == (3, True)


def test_up_waits_for_another_up_that_is_preparing_and_starts_when_that_one_gave_up(
    thermocline: CommandLine, stack_dir: Path, silent: SilentServer, up: Up
) -> None:
    first = up()
    silent.wait_for_client()
    second = up()
    assert second.stderr is not None
    assert "another process starts or stops the stack" in second.stderr.readline()
    first.kill()
    silent.wait_for_client()  # the second one prepares
    assert thermocline("down", "--dir", stack_dir).out == "stopped supervisor\n"
    assert "is up already" not in second.stderr.read()


def test_down_where_no_stack_is_makes_no_directory(thermocline: CommandLine, tmp_path: Path) -> None:
    done = thermocline("down", "--dir", tmp_path / "nothing")
    assert (done.code, "error TC112" in done.err, (tmp_path / "nothing").exists()) == (3, True, False)


def test_of_two_detached_ups_one_starts_the_stack_and_both_say_that_it_is_up(
    thermocline: CommandLine, stack_dir: Path
) -> None:
    with ThreadPoolExecutor() as threads:
        both = list(threads.map(lambda _: thermocline("up", "--detach", "--dir", stack_dir, "--json"), range(2)))
    assert [one.code for one in both] == [0, 0], [one.err for one in both]
    assert both[0].document()["supervisor"] == both[1].document()["supervisor"]
    with ThreadPoolExecutor() as threads:
        downs = list(threads.map(lambda _: thermocline("down", "--dir", stack_dir), range(2)))
    assert [down.code for down in downs] == [0, 0], [down.err for down in downs]
    assert processes_of(stack_dir) == []
