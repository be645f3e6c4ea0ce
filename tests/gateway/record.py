"""Records the conversation of `postgres_fdw` of each Postgres major: `python -m tests.gateway.record [14 15 …]`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import psycopg
from tests.gateway.conftest import PASSWORD, connect_server, make_template, open_site
from tests.gateway.recording import COLUMNS, FOLDER, MAJORS, converse, make_recorded_lake, record, write_recording

from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port


def _server(directory: Path, name: str, version: str) -> PostgresServer:
    server = PostgresServer(directory / name, free_port(), FAST_TEST_SETTINGS, password=PASSWORD, version=version)
    server.init()
    server.start()
    return server


def _record(directory: Path, major: str, gateway_port: int) -> None:
    reader = _server(directory, f"pg{major}", MAJORS[major])
    try:
        with record(gateway_port) as recorder, psycopg.connect(reader.dsn(), autocommit=True) as conn:
            conn.execute("create extension postgres_fdw")
            connect_server(conn, recorder.port)
            conn.execute(
                "alter server thermocline_gateway options (add sslmode 'disable', add application_name 'recorded')"
            )
            conn.execute("create schema thermocline_lake")
            conn.execute(
                f"create foreign table thermocline_lake.recorded ({COLUMNS}, _snapshot bigint) server "
                "thermocline_gateway"
                " options (schema_name 'public', table_name 'recorded')".encode()
            )
            converse(conn)
        (turns,) = recorder.conversations
        write_recording(FOLDER / f"postgres_fdw_{major}.jsonl", MAJORS[major], turns)
        print(f"postgres_fdw {major}: {len(turns)} turns, {sum(len(turn.data) for turn in turns):,} bytes")
    finally:
        reader.stop("immediate")
        reader.remove()


def main(majors: list[str]) -> None:
    directory = Path(tempfile.mkdtemp(prefix="thermocline-record-"))
    directory.chmod(0o755)
    home = _server(directory, "home", MAJORS["18"])
    try:
        with open_site(home, make_template(home), directory / "ware house") as site:
            make_recorded_lake(site)
            for major in majors:
                _record(directory, major, site.gateway.port)
    finally:
        home.stop("immediate")
        home.remove()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1:] or list(MAJORS))
