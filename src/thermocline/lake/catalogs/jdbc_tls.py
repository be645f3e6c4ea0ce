"""Encryption of the JDBC driver's connections, as libpq's files and options say.

The driver is not libpq: it knows other defaults, verifies in fewer modes, and reads no PEM keys. A client certificate
and its key are handed to it in a PKCS #12 file that only this process' user can read, under a random password, and that
goes with the process. The driver reads that file at every connection, so a renewed certificate is written into the same
file.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import tempfile
import threading
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from thermocline.errors import ClientKeyUnreadable
from thermocline.runtime.pg import ClientTls

_LOG = logging.getLogger("thermocline.spark")

_ALIAS = b"user"
"""The driver looks for this name in a PKCS #12 file."""


def jdbc_tls(tls: ClientTls) -> dict[str, str]:
    """The driver's properties."""
    if tls.mode == "disable":
        return {"sslmode": "disable"}
    properties = {"sslmode": str(tls.mode), **_client_certificate(tls)}
    if tls.is_direct:
        properties["sslNegotiation"] = "direct"
    if tls.root == "system":
        properties["sslfactory"] = "org.postgresql.ssl.DefaultJavaSSLFactory"
    elif tls.root is not None:
        properties["sslrootcert"] = str(Path(tls.root).absolute())
    return properties


def _client_certificate(tls: ClientTls) -> dict[str, str]:
    """Always named: without it the driver would look for files of its own."""
    if tls.certificate is None or tls.key is None:
        return {"sslcert": "", "sslkey": ""}
    with _LOCK:
        stores = [store for store in _STORES if store.tls == tls]
        store = stores[0] if stores else _Store(tls)
        store.renew()
        if not stores:
            _STORES.append(store)
    return {"sslkey": str(store.path), "sslpassword": store.password}


def renew_client_certificates() -> None:
    """Write certificates that were renewed since into the files that a running Spark session has. One that cannot be
    read, or is not yet followed by its key, leaves the former one in use."""
    with _LOCK:
        for store in _STORES:
            try:
                store.renew()
            except ClientKeyUnreadable as problem:
                _LOG.warning("Spark goes on with the client certificate that it has: %s", problem)


class _Store:
    """The PKCS #12 file of a certificate and its key."""

    def __init__(self, tls: ClientTls) -> None:
        self.tls = tls
        self.password = secrets.token_urlsafe(24)
        self.path = _private_directory() / f"{secrets.token_hex(8)}.p12"
        self._written: tuple[bytes, bytes] | None = None

    def renew(self) -> None:
        """Replace the file, whole or not at all, when certificate or key changed."""
        assert self.tls.certificate is not None
        assert self.tls.key is not None
        try:
            pems = Path(self.tls.certificate).read_bytes(), Path(self.tls.key).read_bytes()
            if pems == self._written:
                return
            content = _serialize(*pems, self.tls.key_password, self.password)
        except (OSError, ValueError, TypeError) as problem:
            raise ClientKeyUnreadable(
                f"The certificate {self.tls.certificate} with the key {self.tls.key} cannot be read for Spark: "
                f"{problem}."
            ) from problem
        fresh = self.path.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as handle:
            handle.write(content)
        fresh.replace(self.path)
        self._written = pems


_LOCK = threading.Lock()
_STORES: list[_Store] = []


@lru_cache(maxsize=1)
def _private_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="thermocline-jdbc-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _serialize(certificate_pem: bytes, key_pem: bytes, key_password: str | None, password: str) -> bytes:
    first, *others = x509.load_pem_x509_certificates(certificate_pem)
    key = serialization.load_pem_private_key(key_pem, key_password.encode() if key_password else None)
    if first.public_key() != key.public_key():
        raise ValueError("the key belongs to another certificate")
    return pkcs12.serialize_key_and_certificates(
        _ALIAS,
        key,  # type: ignore[arg-type]  # a key that no certificate can have is refused here
        first,
        others,
        serialization.BestAvailableEncryption(password.encode()),
    )
