"""Logins over TLS that are bound to the certificate the client saw (SCRAM-SHA-256-PLUS)."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import scramp
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from psycopg.conninfo import make_conninfo
from tests.gateway.conftest import PASSWORD

from thermocline.gateway.config import Certificate, GatewayConfig, hash_end_point, read_certificate
from thermocline.gateway.server import start_in_thread
from thermocline.gateway.wire.scram import BOUND_MECHANISM, MECHANISM, ScramExchange, WrongCredentials, make_verifier
from thermocline.runtime.certificates import keep_certificate

NOW = dt.datetime.now(dt.UTC)


def _certificate(directory: Path, stem: str = "gateway", now: dt.datetime = NOW) -> Certificate:
    return read_certificate(*keep_certificate(directory, stem, ("127.0.0.1", "localhost"), now=now))


@contextmanager
def _gateway(site: Any, certificate: Certificate | None) -> Iterator[str]:
    with start_in_thread(site.dsn, config=GatewayConfig(dsn=site.dsn, certificate=certificate)) as gateway:
        yield make_conninfo(site.direct_dsn(), port=gateway.port)


def test_a_client_that_requires_channel_binding_gets_it(site: Any, tmp_path: Path) -> None:
    with _gateway(site, _certificate(tmp_path)) as dsn:
        with psycopg.connect(make_conninfo(dsn, sslmode="require", channel_binding="require")) as conn:
            assert conn.pgconn.ssl_in_use
        with psycopg.connect(make_conninfo(dsn, sslmode="require", channel_binding="disable")) as conn:
            assert conn.pgconn.ssl_in_use


def test_a_wrong_password_stays_wrong_with_channel_binding(site: Any, tmp_path: Path) -> None:
    with (
        _gateway(site, _certificate(tmp_path)) as dsn,
        pytest.raises(psycopg.OperationalError, match="password authentication failed"),
    ):
        psycopg.connect(make_conninfo(dsn, sslmode="require", channel_binding="require", password="wrong"))


def test_without_tls_nothing_is_bound(site: Any) -> None:
    with _gateway(site, None) as dsn:
        with pytest.raises(psycopg.OperationalError, match="channel binding"):
            psycopg.connect(make_conninfo(dsn, channel_binding="require"))
        psycopg.connect(dsn).close()


def test_somebody_in_between_with_a_certificate_of_their_own_is_found_out(site: Any, tmp_path: Path) -> None:
    """The one in between ends the client's TLS and speaks TLS to the gateway, passing every byte on."""
    theirs = _certificate(tmp_path, "theirs")
    with _gateway(site, _certificate(tmp_path)) as dsn, socket.create_server(("127.0.0.1", 0)) as listening:
        port = int(str(psycopg.conninfo.conninfo_to_dict(dsn)["port"]))
        threading.Thread(target=_sit_between, args=(listening, port, theirs), daemon=True).start()
        through = make_conninfo(dsn, port=listening.getsockname()[1], sslmode="require", channel_binding="require")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(through)


def _sit_between(listening: socket.socket, port: int, theirs: Certificate) -> None:
    client, _ = listening.accept()
    server = socket.create_connection(("127.0.0.1", port))
    server.sendall(client.recv(8))
    client.sendall(server.recv(1))
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    with theirs.context.wrap_socket(client, server_side=True) as left, unchecked.wrap_socket(server) as right:
        # By one thread: an SSL socket that two threads use at once is undefined in Python 3.11, up to a crash of the
        # process.
        for side in (left, right):
            side.setblocking(False)
        while True:
            select.select([left, right], [], [], 0.05)
            for source, target in ((left, right), (right, left)):
                try:
                    data = source.recv(65_536)
                except ssl.SSLWantReadError:
                    continue
                except OSError:
                    return
                if not data:
                    return
                target.setblocking(True)
                target.sendall(data)
                target.setblocking(False)


def test_a_client_told_that_we_cannot_bind_is_refused_when_we_can() -> None:
    exchange = ScramExchange("ann", make_verifier(PASSWORD), mechanism=MECHANISM, end_point=b"x" * 32)
    with pytest.raises(WrongCredentials):
        exchange.first(b"y,,n=,r=abcdef")
    ScramExchange("ann", make_verifier(PASSWORD), mechanism=MECHANISM).first(b"y,,n=,r=abcdef")


@pytest.mark.parametrize("first", [b"n,,n=,r=abc", b"p=tls-unique,,n=,r=abc", b"p=tls-exporter,,n=,r=abc"])
def test_the_bound_mechanism_takes_its_own_binding_only(first: bytes) -> None:
    with pytest.raises(WrongCredentials):
        ScramExchange("ann", make_verifier(PASSWORD), mechanism=BOUND_MECHANISM, end_point=b"x" * 32).first(first)


def test_the_binding_is_the_hash_that_other_implementations_compute(tmp_path: Path) -> None:
    cert, _ = keep_certificate(tmp_path, "gateway", ("localhost",), now=NOW)
    der = x509.load_pem_x509_certificate(cert.read_bytes()).public_bytes(Encoding.DER)
    assert hash_end_point(cert.read_bytes()) == hashlib.sha256(der).digest()
    binding = ("tls-server-end-point", hashlib.sha256(der).digest())
    client = scramp.ScramClient([BOUND_MECHANISM], "ann", PASSWORD, channel_binding=binding)
    exchange = ScramExchange(
        "ann", make_verifier(PASSWORD), mechanism=BOUND_MECHANISM, end_point=hash_end_point(cert.read_bytes())
    )
    client.set_server_first(exchange.first(client.get_client_first().encode()).decode())
    client.set_server_final(exchange.final(client.get_client_final().encode()).decode())
    assert base64.b64encode(binding[1])


def test_a_certificate_is_kept_until_it_is_due_or_its_names_change(tmp_path: Path) -> None:
    def made(*names: str, days: int = 0) -> bytes:
        return keep_certificate(tmp_path, "gateway", names, now=NOW + dt.timedelta(days=days))[0].read_bytes()

    first = made("127.0.0.1", "localhost")
    assert made("127.0.0.1") == first
    assert made("localhost", days=700) == first
    assert made("db.example") != first
    second = made("db.example")
    assert made("db.example", days=800) != second
    assert (tmp_path / "gateway.key").stat().st_mode & 0o777 == 0o600
