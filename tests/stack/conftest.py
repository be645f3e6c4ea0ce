"""Real servers and real stacks for the tests of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    def document(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """The program as a person runs it, in a process of its own, without this process' THERMOCLINE_ variables."""

    def __init__(self, **extra: str) -> None:
        self._environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("THERMOCLINE_") or name == "THERMOCLINE_CACHE"
        }
        self._environ.update(extra)

    def __call__(self, *arguments: str | Path, **extra: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "thermocline", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**self._environ, **extra},
            cwd=tempfile.gettempdir(),
        )
        return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture
def thermocline() -> CommandLine:
    return CommandLine()


@pytest.fixture(scope="session")
def scratch(clusters: Path) -> Path:
    """A directory that the server's user may pass through, which pytest's own are not."""
    return clusters


@pytest.fixture(scope="session")
def server(clusters: Path) -> Iterator[PostgresServer]:
    running = PostgresServer(clusters / "server", free_port(), FAST_TEST_SETTINGS, password="a:b\\c 'd")
    running.init()
    running.start()
    yield running
    running.remove()


@pytest.fixture
def stack_dir(tmp_path: Path, thermocline: CommandLine) -> Iterator[Path]:
    """A directory for a stack; whatever the test leaves running there is stopped, and its cluster removed."""
    directory = tmp_path / "stack"
    yield directory
    if (directory / "stack.json").exists():
        thermocline("down", "--dir", directory)
    PostgresServer(directory / "postgres", 0, password="").remove()
    assert processes_of(directory) == []


def processes_of(directory: Path) -> list[str]:
    """Every living process that has to do with this stack: by its arguments, its environment or its working files."""
    found = []
    cluster = str((directory / "postgres").resolve())
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            mine = any(str(directory) in word or cluster in word for word in words)
            mine = mine or process.environ().get("THERMOCLINE_DIR") == str(directory)
            if mine and process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(" ".join(words))
        except psutil.Error:
            continue
    return found
