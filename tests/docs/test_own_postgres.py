"""docs/own-postgres.md, followed by a role that is no superuser and owns its tables."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from tests.docs.page_run import Reader
from tests.docs.pages import BEFORE, OWN_POSTGRES

from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer, free_port


@pytest.fixture
def owner(postgres: PostgresServer, clusters: Path) -> Iterator[Reader]:
    """A reader with a database `app` of the role `app`, and passwords in a passfile."""
    directory = clusters / "owner"
    directory.mkdir()
    passfile = directory / "pgpass"
    passfile.write_text(f"127.0.0.1:{postgres.port}:*:postgres:test\n127.0.0.1:{postgres.port}:*:app:owner\n")
    passfile.chmod(0o600)
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute("create role app login password 'owner'")
        conn.execute("create database app owner app")
    server, gateway = f"127.0.0.1:{postgres.port}", f"127.0.0.1:{free_port()}"
    reader = Reader(
        directory=directory,
        addresses={
            "db.example:5432": server,
            "gateway.example:5439": gateway,
            "0.0.0.0:5439": gateway,
            "127.0.0.1:8439": f"127.0.0.1:{free_port()}",
            "/srv/lake": str(directory / "lake"),
            "/opt/thermocline": str(directory / ".venv"),
        },
        environment={"PGPASSFILE": str(passfile)},
        dsn=f"postgresql://app@{server}/app",
    )
    reader.shell(f"psql -Xq -v ON_ERROR_STOP=1 {reader.dsn} -f {BEFORE}")
    yield reader
    reader.shell("kill ${WORKER:-} ${GATEWAY:-} 2>/dev/null || true")
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute("drop database app with (force)")
        conn.execute("drop owned by app")
        conn.execute("drop role app")


@pytest.mark.timeout(600)
def test_the_owner_of_the_tables_follows_the_page_without_a_superusers_rights(owner: Reader) -> None:
    owner.follow(OWN_POSTGRES)
    with closing(connect(make_conninfo(owner.stack_dsn(), password="owner"))) as conn:
        assert conn.execute("select rolsuper from pg_roles where rolname = current_user").fetchall() == [(False,)]
        assert conn.execute("select to_regclass('public.events_2026_01')").fetchall() == [(None,)]
        assert conn.execute("select count(*) from pg_event_trigger where evtname ~ 'thermocline'").fetchall() == [(0,)]
    assert " 2800 | 2026-01-01 01:00:00+00" in owner.printed[-1]
    _check_unit(owner.directory / "etc/systemd/system/thermocline@.service")


def _check_unit(path: Path) -> None:
    """systemd itself accepts it where it is installed; it starts a command that there is."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    program, argument = unit["Service"]["ExecStart"].split()
    assert argument == "%i"
    for process in ("worker", "gateway", "serve"):
        subprocess.run([program, process, "--help"], check=True, capture_output=True)
    if shutil.which("systemd-analyze"):
        command = ["systemd-analyze", "verify", f"./{path.name.replace('@', '@worker')}"]
        verified = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
        assert path.name not in verified.stderr, verified.stderr
