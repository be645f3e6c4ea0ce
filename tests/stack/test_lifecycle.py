"""Up, status, down, and what is killed in between."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from tests.stack.conftest import CommandLine, processes_of

from thermocline.cli.stack import read_database, render_status
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.stack.lifecycle import read_status

NAMES = ["postgres", "gateway", "worker", "serve"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One stack that is up, shared by the tests that only look at it or hurt a child."""
    directory = tmp_path_factory.mktemp("shared") / "stack"
    command = CommandLine()
    started = command("up", "--detach", "--dir", directory, "--json")
    assert started.code == 0, started.err
    yield directory
    command("down", "--dir", directory)
    PostgresServer(directory / "postgres", 0, password="").remove()
    assert processes_of(directory) == []


def status(directory: Path) -> dict[str, Any]:
    stack = read_status(directory)
    return render_status(stack.state, read_database(stack))


def eventually(condition: Callable[[], bool], timeout_seconds: float = 60) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def wait_until_ready(directory: Path) -> None:
    """Wait until every child answers; /readyz alone tells what the server saw up to ten seconds ago."""
    url = status(directory)["api"]["url"]

    def is_ready() -> bool:
        try:
            with psycopg.connect(status(directory)["gateway"]["dsn"]):
                return bool(json.load(urllib.request.urlopen(f"{url}/readyz"))["status"] == "ready")
        except (urllib.error.URLError, ConnectionError, psycopg.OperationalError):
            return False

    eventually(is_ready)


def test_status_tells_the_addresses_and_every_process(thermocline: CommandLine, stack: Path) -> None:
    assert thermocline("pause", "--dir", stack).code == 0
    assert thermocline("status", "--json", "--dir", stack).document()["paused"] == ["every table"]
    assert thermocline("resume", "--dir", stack).code == 0
    seen = thermocline("status", "--json", "--dir", stack).document()
    assert seen["paused"] == []
    assert [process["name"] for process in seen["processes"]] == NAMES
    assert all(process["state"] == "running" and psutil.pid_exists(process["pid"]) for process in seen["processes"])
    assert seen["warehouse"] == str(stack / "warehouse")
    with psycopg.connect(seen["postgres"]["dsn"]) as conn:
        assert conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,)
    with psycopg.connect(seen["gateway"]["dsn"]):
        pass


def test_the_dsn_of_status_works_when_pasted_into_psql(stack: Path) -> None:
    dsn = status(stack)["postgres"]["dsn"]
    told = subprocess.run(["psql", "-XAtc", "select 6 * 7", dsn], capture_output=True, text=True, check=True)
    assert told.stdout == "42\n"


def test_no_password_is_in_status_in_stack_json_or_on_a_command_line(stack: Path) -> None:
    passwords = [(stack / "secrets" / name).read_text() for name in ("postgres_password", "gateway_password")]
    shown = json.dumps(status(stack)) + (stack / "stack.json").read_text() + "".join(processes_of(stack))
    assert not any(password in shown for password in passwords)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (stack / "secrets").iterdir())


@pytest.mark.conforms("O-045")
def test_health_readiness_and_metrics_are_served(stack: Path) -> None:
    url = status(stack)["api"]["url"]
    assert json.load(urllib.request.urlopen(f"{url}/healthz"))["status"] == "alive"
    wait_until_ready(stack)
    assert b"python_info" in urllib.request.urlopen(f"{url}/metrics").read()


def test_the_gateway_counts_for_prometheus_where_status_says(stack: Path) -> None:
    told = urllib.request.urlopen(status(stack)["gateway"]["metrics"]).read()
    assert b"thermocline_gateway_connections" in told


def test_postgres_verifies_the_certificate_that_the_stack_signed_for_its_gateway(stack: Path) -> None:
    with psycopg.connect(status(stack)["postgres"]["dsn"], autocommit=True) as conn:
        options = conn.execute(
            "select srvoptions from pg_foreign_server where srvname = 'thermocline_gateway'"
        ).fetchone()
        assert options is not None
        assert {"sslmode=verify-full", "sslrootcert=thermocline_gateway.crt"} <= set(options[0])
        conn.execute(
            "create foreign table public.nothing (id bigint) server thermocline_gateway"
            " options (schema_name 'public', table_name 'nothing')"
        )
        with pytest.raises(psycopg.Error, match="TC503"):
            conn.execute("select * from public.nothing")
        conn.execute("drop foreign table public.nothing")
    assert (stack / "tls" / "gateway.key").stat().st_mode & 0o077 == 0


def test_the_doctor_finds_nothing_red(thermocline: CommandLine, stack: Path) -> None:
    done = thermocline("doctor", "--json", "--dir", stack)
    assert [finding for finding in done.document()["findings"] if finding["verdict"] == "red"] == []
    assert done.code == 0


def test_up_of_a_stack_that_is_up_says_so(thermocline: CommandLine, stack: Path) -> None:
    before = thermocline("status", "--json", "--dir", stack).document()
    again = thermocline("up", "--dir", stack)
    assert again.code == 0
    assert "is up already" in again.err
    told = thermocline("up", "--detach", "--dir", stack, "--json").document()
    assert {**told, "problems": []} == {**before, "problems": []}


@pytest.mark.conforms("O-175")
def test_a_process_that_runs_and_does_not_answer_shows_in_status(thermocline: CommandLine, stack: Path) -> None:
    gateway = next(entry for entry in status(stack)["processes"] if entry["name"] == "gateway")
    os.kill(gateway["pid"], signal.SIGSTOP)
    try:
        seen = thermocline("status", "--json", "--dir", stack)
        told = thermocline("status", "--dir", stack)
    finally:
        os.kill(gateway["pid"], signal.SIGCONT)
    assert (seen.code, seen.document()["state"]) == (1, "up")
    assert "gateway" in {problem["check"] for problem in seen.document()["problems"] if problem["verdict"] == "red"}
    assert told.code == 1
    assert "red        gateway: " in told.out


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_process_is_started_again_with_a_message(stack: Path, name: str) -> None:
    def process() -> dict[str, Any]:
        return next(entry for entry in status(stack)["processes"] if entry["name"] == name)

    before = process()
    os.kill(before["pid"], signal.SIGKILL)
    eventually(lambda: process()["restarts"] == before["restarts"] + 1 and process()["state"] == "running")
    assert process()["pid"] != before["pid"]
    log = (stack / "logs" / "supervisor.log").read_text()
    assert f"{name} ended (signal 9)" in log or (name == "postgres" and "postgres ended" in log)
    wait_until_ready(stack)


def test_ctrl_c_stops_everything(stack_dir: Path) -> None:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("THERMOCLINE_") or name == "THERMOCLINE_CACHE"
    }
    with subprocess.Popen(
        [sys.executable, "-m", "thermocline", "up", "--dir", str(stack_dir)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environ,
    ) as up:
        assert up.stderr is not None
        assert any("the stack is up" in line for line in up.stderr)
        up.send_signal(signal.SIGINT)
        up.stderr.read()
        assert up.wait(timeout=90) == 0
    assert processes_of(stack_dir) == []


@pytest.mark.faults
def test_down_leaves_nothing_running_also_when_the_supervisor_was_killed(
    thermocline: CommandLine, stack_dir: Path
) -> None:
    started = thermocline("up", "--detach", "--dir", stack_dir, "--json")
    assert started.code == 0, started.err
    first = started.document()
    os.kill(first["supervisor"]["pid"], signal.SIGKILL)
    assert thermocline("down", "--dir", stack_dir).code == 0
    assert processes_of(stack_dir) == []
    seen = thermocline("status", "--json", "--dir", stack_dir)
    assert (seen.code, seen.document()["state"]) == (1, "down")
    again = thermocline("up", "--detach", "--dir", stack_dir, "--json")
    assert again.code == 0, again.err
    assert [again.document()[part] for part in ("postgres", "gateway", "api")] == [
        first[part] for part in ("postgres", "gateway", "api")
    ]
    assert thermocline("down", "--dir", stack_dir).out == "stopped postgres, gateway, worker, serve, supervisor\n"
    assert processes_of(stack_dir) == []
    assert thermocline("down", "--dir", stack_dir).out == "nothing was running\n"

    port = psycopg.conninfo.conninfo_to_dict(first["postgres"]["dsn"])["port"]
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", int(str(port))))
        holder.listen()
        refused = thermocline("up", "--dir", stack_dir)
    assert refused.code == 3
    assert (
        f"Port {port} on 127.0.0.1 is taken by another program, and {stack_dir}/stack.json records it for Postgres."
        in refused.err
    )


def test_an_existing_postgres_is_used_without_writing_its_password_anywhere_open(
    thermocline: CommandLine, stack_dir: Path, server: PostgresServer
) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("create database own")
    started = thermocline("up", "--detach", "--dir", stack_dir, "--json", THERMOCLINE_DSN=server.dsn("own"))
    assert started.code == 0, started.err
    seen = started.document()
    assert [process["name"] for process in seen["processes"]] == NAMES[1:]
    assert not seen["postgres"]["embedded"]
    assert server.password not in (stack_dir / "stack.json").read_text() + "".join(processes_of(stack_dir))
    assert thermocline("tables", "--json", "--dir", stack_dir).document() == []
    with psycopg.connect(seen["postgres"]["dsn"]) as conn:
        assert conn.info.dbname == "own"
    assert thermocline("down", "--dir", stack_dir).code == 0
    with psycopg.connect(server.dsn("own")) as conn:
        assert conn.execute("select 1").fetchone() == (1,)


def test_the_demo_tells_one_answer_before_and_after_and_goes_on_the_second_time(
    thermocline: CommandLine, stack: Path
) -> None:
    first = thermocline("demo", "--dir", stack)
    assert first.code == 0, first.err
    assert "5 partitions with 172,000 rows are in the lake" in first.out
    assert "152,000 rows in the heap, 172,000 in the lake" in first.out
    assert "the same answer." in first.out
    assert "Its amount was 0.00" in first.out
    assert "it reads back as 1.00" in first.out
    second = thermocline("demo", "--dir", stack)
    assert second.code == 0, second.err
    assert "demo.events is there already" in second.err
    assert "the same answer." in second.out
    assert "it reads back as 2.00" in second.out
