"""The gateway under load and in operation: queues, limits, cancels in time, stalled clients, many clients, TLS,
probes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tests.gateway.gateway_program import start_program

from thermocline.gateway.config import GatewayConfig, read_certificate
from thermocline.gateway.lake_arm.catalog_reader import EvaluationLimits
from thermocline.gateway.server import start_in_thread
from thermocline.runtime.postgres_server import free_port

NUMBERS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))
EVALUATED = "select id, upper(note) from public.numbers where _snapshot = {} and length(note) = 20"


def _fill(site: Any, count: int) -> int:
    site.lake.create("numbers", NUMBERS)
    site.lake.foreign_table("numbers", "id bigint, note text")
    return int(
        site.lake.append("numbers", pa.table({"id": pa.array(np.arange(count)), "note": pa.repeat("x" * 20, count)}))
    )


def _connected(site: Any, port: int) -> psycopg.Connection[Any]:
    return psycopg.connect(make_conninfo(site.direct_dsn(), port=port), autocommit=True)


@dataclass(frozen=True)
class Program:
    """A gateway in a process of its own."""

    process: subprocess.Popen[bytes]
    site: Any
    port: int
    http_port: int

    def dsn(self, **more: Any) -> str:
        return make_conninfo(self.site.direct_dsn(), port=self.port, **more)

    def used_bytes(self) -> int:
        """The memory of the gateway and of its executors; what they share with each other counts once."""
        gateway = psutil.Process(self.process.pid)
        return int(sum(process.memory_full_info().pss for process in (gateway, *gateway.children(recursive=True))))

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=15) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()


@contextmanager
def _program(site: Any, **settings: str) -> Iterator[Program]:
    with start_program(site.dsn, **settings) as started:
        yield Program(started.process, site, started.port, started.http_port)


@pytest.mark.conforms("O-102")
def test_open_cursors_that_postgres_evaluates_keep_no_login_and_no_look_up_waiting(site: Any) -> None:
    snapshot = _fill(site, 50_000)
    limits = EvaluationLimits(at_once=2, queued=4, wait_seconds=0.5)
    with (
        start_in_thread(site.dsn, config=GatewayConfig(dsn=site.dsn, evaluations=limits)) as gateway,
        ExitStack() as held,
    ):
        dsn = make_conninfo(site.direct_dsn(), port=gateway.port)
        for number in range(2):
            conn = held.enter_context(psycopg.connect(dsn))
            conn.execute(f"declare c{number} cursor for {EVALUATED.format(snapshot)}")
            assert len(conn.execute(f"fetch 10 from c{number}").fetchall()) == 10
        with psycopg.connect(dsn, autocommit=True) as other:
            assert other.execute(
                "select id from public.numbers where _snapshot = %s and id = 7", (snapshot,)
            ).fetchall() == [(7,)]
            with pytest.raises(psycopg.Error, match="TC507") as busy:
                other.execute(EVALUATED.format(snapshot))
            assert busy.value.sqlstate == "53000"
            conn.rollback()
            assert len(other.execute(EVALUATED.format(snapshot) + " and id < 5").fetchall()) == 5


@pytest.mark.conforms("O-102")
def test_a_hundred_scans_at_once_are_queued_and_all_answered(site: Any) -> None:
    snapshot = _fill(site, 20_000)

    def ask(number: int) -> int:
        with psycopg.connect(make_conninfo(site.direct_dsn(), connect_timeout=60), autocommit=True) as conn:
            query = "select count(*) from public.numbers where _snapshot = {} and {}"
            condition = "id % 2 = 0" if number % 2 else "id >= 0"
            return int(conn.execute(query.format(snapshot, condition)).fetchone()[0])  # type: ignore[index]

    with ThreadPoolExecutor(100) as people:
        assert sorted(people.map(ask, range(100))) == [10_000] * 50 + [20_000] * 50


def test_more_candidate_rows_than_the_limit_are_refused_and_named(site: Any) -> None:
    snapshot = _fill(site, 50_000)
    limits = EvaluationLimits(candidate_limit_bytes=100_000)
    config = GatewayConfig(dsn=site.dsn, evaluations=limits)
    with start_in_thread(site.dsn, config=config) as gateway, _connected(site, gateway.port) as conn:
        with pytest.raises(psycopg.Error, match="TC508") as large:
            conn.execute(EVALUATED.format(snapshot))
        assert large.value.sqlstate == "54000"
        assert len(conn.execute(EVALUATED.format(snapshot) + " and id < 100").fetchall()) == 100


@pytest.mark.conforms("O-099")
def test_a_cancelled_statement_ends_within_a_second_in_the_lake_and_in_postgres(site: Any) -> None:
    snapshot = _fill(site, 3_000_000)
    few = f"select count(*) from public.numbers where _snapshot = {snapshot} and id < 5"
    with _program(site) as program, psycopg.connect(program.dsn(), autocommit=True) as conn:
        assert conn.execute(few).fetchone() == (5,)  # libraries are loaded, from a slow disk too
        for order in ("id desc", "note || id::text"):
            asked_at: list[float] = []
            timer = threading.Timer(0.15, _cancel, (conn, asked_at))
            timer.start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                conn.execute(f"select id, note from public.numbers where _snapshot = {snapshot} order by {order}")
            assert time.monotonic() - asked_at[0] < 1
            timer.join()
        assert conn.execute(few).fetchone() == (5,)


def _cancel(conn: psycopg.Connection[Any], asked_at: list[float]) -> None:
    asked_at.append(time.monotonic())
    conn.cancel_safe()


@pytest.mark.conforms("O-102")
def test_a_client_that_stops_reading_makes_the_gateway_hold_no_more_than_a_few_batches(site: Any) -> None:
    snapshot = _fill(site, 4_000_000)
    with _program(site) as program, psycopg.connect(program.dsn(), autocommit=True) as other:
        query = "select id from public.numbers where _snapshot = %s and id = 5"
        assert other.execute(query, (snapshot,)).fetchall() == [(5,)]
        before = program.used_bytes()
        with psycopg.connect(program.dsn(), autocommit=True) as stalled:
            stalled.pgconn.send_query(
                b"select id, note, note, note from public.numbers where _snapshot = %d" % snapshot
            )
            stalled.pgconn.flush()
            time.sleep(3)
            assert program.used_bytes() - before < 150_000_000, "the answer is 300 MB"
            assert other.execute(query, (snapshot,)).fetchall() == [(5,)]
            stalled.pgconn.finish()


def test_a_thousand_idle_clients_are_held_and_a_busy_one_is_served(site: Any) -> None:
    snapshot = _fill(site, 10)
    with _program(site) as program, ExitStack() as idle, psycopg.connect(program.dsn(), autocommit=True) as conn:
        before = program.used_bytes()
        with ThreadPoolExecutor(8) as people:
            for client in people.map(lambda _: psycopg.connect(program.dsn(connect_timeout=60)), range(1000)):
                idle.callback(client.close)
        assert conn.execute("select count(*) from public.numbers where _snapshot = %s", (snapshot,)).fetchone() == (10,)
        assert program.used_bytes() - before < 200_000_000


@pytest.mark.conforms("O-087")
def test_probes_and_metrics_are_served_and_a_lost_postgres_is_named(stoppable: Any) -> None:
    site, postgres = stoppable
    snapshot = _fill(site, 10)
    with _program(site) as program:
        with psycopg.connect(program.dsn(), autocommit=True) as conn:
            conn.execute("select id from public.numbers where _snapshot = %s and id = 3", (snapshot,)).fetchall()
            conn.execute("select id from public.numbers where _snapshot = %s and id = 300", (snapshot,)).fetchall()
            told = program.get("/metrics")[1]
        for line in (
            'thermocline_gateway_queries_total{outcome="answered"} 2.0',
            "thermocline_gateway_query_seconds_count 2.0",
            "thermocline_gateway_files_scanned_total 1.0",
            "thermocline_gateway_files_skipped_total 1.0",
            "thermocline_gateway_connections 1.0",
            "thermocline_gateway_bytes_read_total",
        ):
            assert line in told
        assert program.get("/healthz")[0] == 200
        assert program.get("/readyz") == (200, '{"status": "ready"}')
        assert program.get("/elsewhere")[0] == 404
        postgres.stop("fast")
        try:
            status, body = program.get("/readyz")
        finally:
            postgres.start()
        assert (status, json.loads(body)["reason"]) == (503, "The gateway cannot reach its Postgres.")
        assert program.get("/healthz")[0] == 200


def _make_certificate(directory: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    directory.chmod(0o755)
    cert, secret = directory / "gateway.pem", directory / "gateway.key"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return cert, secret


def test_tls_is_verified_required_and_read_again_on_request(site: Any, tmp_path: Path) -> None:
    snapshot = _fill(site, 10)
    cert, key = _make_certificate(tmp_path, "first")
    with _program(site, tls_cert=str(cert), tls_key=str(key), tls_required="true") as program:
        verified = program.dsn(sslmode="verify-full", sslrootcert=str(cert))
        with psycopg.connect(verified, autocommit=True) as conn:
            assert conn.pgconn.ssl_in_use
            assert conn.execute("select count(*) from public.numbers where _snapshot = %s", (snapshot,)).fetchone() == (
                10,
            )
        with pytest.raises(psycopg.OperationalError, match="over TLS only"):
            psycopg.connect(program.dsn(sslmode="disable"))
        with psycopg.connect(program.dsn(sslmode="require"), autocommit=True) as conn:
            threading.Timer(0.1, conn.cancel_safe).start()
            time.sleep(0.3)
            assert conn.execute("select count(*) from public.numbers where _snapshot = null").fetchone() == (0,)
        _make_certificate(tmp_path, "second")
        program.process.send_signal(signal.SIGHUP)
        for _ in range(50):
            try:
                psycopg.connect(verified).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        else:
            raise AssertionError("the new certificate is not served")


def test_bytes_in_the_clear_behind_a_tls_request_end_the_connection(site: Any, tmp_path: Path) -> None:
    cert, key = _make_certificate(tmp_path, "gateway")
    config = GatewayConfig(dsn=site.dsn, certificate=read_certificate(cert, key))
    request = struct.pack(">ii", 8, 80877103)
    with start_in_thread(site.dsn, config=config) as gateway:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
            raw.sendall(request + b"\0\0\0\x09")
            heard = raw.recv(4096)
            assert heard[:1] == b"E"
            assert b"bytes after the TLS request" in heard
        with psycopg.connect(make_conninfo(site.direct_dsn(), port=gateway.port, sslmode="require")) as conn:
            assert conn.pgconn.ssl_in_use


def test_postgres_fdw_reads_over_tls_and_verifies_the_certificate(site: Any) -> None:
    snapshot = _fill(site, 10)
    directory = Path(site.conn.execute("show data_directory").fetchone()[0]).parent
    cert, key = _make_certificate(directory, "gateway")
    with _program(site, tls_cert=str(cert), tls_key=str(key), tls_required="true") as program:
        for option, value in (("port", str(program.port)),):
            site.conn.execute(
                sql.SQL("alter server thermocline_gateway options (set {} {})").format(
                    sql.SQL(option), sql.Literal(value)
                )
            )
        more = sql.SQL("alter server thermocline_gateway options (add sslmode 'verify-full', add sslrootcert {})")
        site.conn.execute(more.format(sql.Literal(str(cert))))
        query = "select count(*) from thermocline_lake.numbers where _snapshot = %s"
        assert site.conn.execute(query, (snapshot,)).fetchone() == (10,)


def test_a_slow_statement_is_logged_with_its_time(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    snapshot = _fill(site, 10)
    config = GatewayConfig(dsn=site.dsn, slow_statement_seconds=0.000001)
    with start_in_thread(site.dsn, config=config) as gateway, _connected(site, gateway.port) as conn:
        conn.execute(f"select count(*) from public.numbers where _snapshot = {snapshot}")
    assert any("slow statement, answered after" in record.getMessage() for record in caplog.records)


def test_the_second_gateway_of_a_list_answers_when_the_first_is_gone(site: Any) -> None:
    snapshot = _fill(site, 10)
    gone = free_port()
    site.conn.execute(
        sql.SQL("alter server thermocline_gateway options (set host '127.0.0.1,127.0.0.1', set port {})").format(
            sql.Literal(f"{gone},{site.gateway.port}")
        )
    )
    query = "select count(*) from thermocline_lake.numbers where _snapshot = %s"
    assert site.conn.execute(query, (snapshot,)).fetchone() == (10,)
