"""The HTTP API while what it needs is missing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stack.conftest import CommandLine

from thermocline.runtime.postgres_server import PostgresServer, free_port


@pytest.fixture
def lonely_api(tmp_path: Path) -> Iterator[str]:
    """`thermocline serve` with a DSN behind which nobody listens."""
    listen = f"127.0.0.1:{free_port()}"
    command = [
        sys.executable,
        "-m",
        "thermocline",
        "serve",
        "--dir",
        str(tmp_path),
        "--listen",
        listen,
        "--dsn",
        "host=127.0.0.1 port=1 dbname=d",
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://{listen}/healthz").close()
                break
            except urllib.error.URLError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield f"http://{listen}"
        process.terminate()
        assert process.wait(timeout=30) == 0


@pytest.mark.conforms("O-045")
def test_it_is_alive_but_not_ready_without_postgres(lonely_api: str) -> None:
    assert json.load(urllib.request.urlopen(f"{lonely_api}/healthz"))["status"] == "alive"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{lonely_api}/readyz")
    with caught.value as answer:
        assert answer.code == 503
        assert "Postgres at host 127.0.0.1, port 1, database d" in json.load(answer)["reason"]


def test_an_address_that_others_can_reach_is_refused(
    thermocline: CommandLine, tmp_path: Path, server: PostgresServer
) -> None:
    done = thermocline("serve", "--listen", f"0.0.0.0:{free_port()}", "--dir", tmp_path, THERMOCLINE_DSN=server.dsn())
    assert done.code == 3
    assert "listens on loopback addresses only, not on 0.0.0.0" in done.err


def test_a_taken_port_is_refused_with_its_number(
    thermocline: CommandLine, tmp_path: Path, server: PostgresServer
) -> None:
    done = thermocline("serve", "--listen", f"127.0.0.1:{server.port}", "--dir", tmp_path, THERMOCLINE_DSN=server.dsn())
    assert done.code == 3
    assert f"Port {server.port} on 127.0.0.1 is taken" in done.err
