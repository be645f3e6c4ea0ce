"""The gateway as a process of its own: killed in the middle of a scan, and asked to end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from thermocline.runtime.postgres_server import free_port

PROGRAM = (
    "import sys; from thermocline.gateway.server import run_gateway; from thermocline.runtime.settings import "
    "Settings; "
)
PROGRAM += "run_gateway(Settings(dsn=sys.argv[1], gateway_listen=sys.argv[2]))"


def _start(dsn: str, port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, dsn, f"127.0.0.1:{port}"])
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise AssertionError("the gateway did not start")


@pytest.mark.conforms("O-140")
def test_a_kill_in_the_middle_of_a_scan_is_an_error_and_the_next_statement_works_when_it_is_back(site: Any) -> None:
    site.lake.create("numbers", Schema(NestedField(1, "id", LongType(), required=False)))
    site.lake.foreign_table("numbers", "id bigint")
    snapshot = site.lake.append("numbers", pa.table({"id": pa.array(range(500_000), pa.int64())}))
    port = free_port()
    site.conn.execute(sql.SQL("alter server thermocline_gateway options (set port {})").format(sql.Literal(str(port))))
    process = _start(site.dsn, port)
    try:
        with psycopg.connect(site.dsn) as reader:
            cursor = reader.cursor("scan")
            cursor.execute("select id from thermocline_lake.numbers where _snapshot = %s", (snapshot,))
            assert len(cursor.fetchmany(10)) == 10
            process.send_signal(signal.SIGKILL)
            process.wait()
            with pytest.raises(psycopg.Error, match="connection"):
                cursor.fetchmany(400_000)
            reader.rollback()
            cursor.close()
        process = _start(site.dsn, port)
        found = site.conn.execute(
            "select count(*) from thermocline_lake.numbers where _snapshot = %s", (snapshot,)
        ).fetchone()
        assert found == (500_000,)
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0
