"""README's demo and its dozen lines, as written, one after the other in one directory, in both orders."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stack.conftest import processes_of

from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.stack.state import read_state

ROOT = Path(__file__).parents[2]
OF_AN_OUTER_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
"""What `make test` sets for its children: a make below it would print the directories that it enters and leaves."""


class Reader:
    """A person in an empty directory who types what README says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stack = directory / ".thermocline"
        (directory / ".venv").symlink_to(ROOT / ".venv")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        section = readme.partition("## A dozen lines")[2].partition("\n## ")[0]
        (self.shell,), (self.sql,) = (re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("sh", "sql"))
        self.environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("THERMOCLINE_") or name == "THERMOCLINE_CACHE"
        }

    def type(self, lines: str) -> str:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", lines],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def make_run(self) -> str:
        """The command that `make run` becomes once everything is installed."""
        environ = {name: value for name, value in self.environ.items() if name not in OF_AN_OUTER_MAKE}
        plan = subprocess.run(["make", "-n", "run"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
        (command,) = (line for line in plan.stdout.splitlines() if line.startswith("exec "))
        return command

    def check_dozen_lines(self) -> None:
        self.type(self.shell)
        state = read_state(self.stack)
        assert state is not None
        told = subprocess.run(
            ["psql", "-X", "-A", "-t", state.postgres_dsn], input=self.sql, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert (told[0], told[-1]) == ("SET", "UPDATE 1")
        months = [line.split("|") for line in told[1:-1]]
        assert sum(int(count) for _, count, _ in months) == 900_000
        with connect(state.postgres_dsn) as conn:
            assert conn.execute("select v from public_all.events where id = 17").fetchone() == (18,)
            found = conn.execute(
                "select s is not null from thermocline.cutline join thermocline.tables t on t.id = "
                "table_id where t.schema_name = 'public'"
            ).fetchone()
            assert found == (True,)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    person = Reader(tmp_path)
    yield person
    person.type(".venv/bin/thermocline down")
    PostgresServer(person.stack / "postgres", 0, password="").remove()
    assert processes_of(person.stack) == []


@pytest.mark.conforms("O-177")
def test_make_run_and_then_the_dozen_lines(reader: Reader) -> None:
    with subprocess.Popen(
        ["bash", "-c", reader.make_run()],
        cwd=reader.directory,
        env=reader.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        told = []
        for line in demo.stdout:
            told.append(line)
            if "the stack is up; Ctrl-C stops it" in line:
                demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=120) == 0
    assert any("the same answer." in line for line in told), "".join(told)
    reader.check_dozen_lines()


@pytest.mark.conforms("O-177")
def test_the_dozen_lines_and_then_make_run(reader: Reader) -> None:
    reader.check_dozen_lines()
    told = reader.type(reader.make_run())
    assert "demo.events was made" in told
    assert "the same answer." in told
    tables = reader.type(".venv/bin/thermocline tables")
    assert "public.events" in tables
    assert "demo.events" in tables


def test_the_demo_leaves_a_schema_of_its_name_alone_that_it_did_not_make(reader: Reader) -> None:
    reader.type(".venv/bin/thermocline up --detach")
    state = read_state(reader.stack)
    assert state is not None
    with connect(state.postgres_dsn, autocommit=True) as conn:
        conn.execute("create schema demo")
        conn.execute("create table demo.events (mine text)")
        refused = subprocess.run(
            ["bash", "-c", reader.make_run()],
            cwd=reader.directory,
            env=reader.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (refused.returncode, "error TC123" in refused.stderr) == (3, True), refused.stderr
        assert conn.execute("select count(*) from demo.events").fetchone() == (0,)
        assert conn.execute("select count(*) from thermocline.tables").fetchone() == (0,)
