"""Configuration of one gateway: addresses, limits and the TLS certificate."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from thermocline.errors import GatewayNotStarted, NoStack
from thermocline.gateway.executor.memory_limits import MemoryLimits
from thermocline.gateway.lake_arm.catalog_reader import DEFAULT_EVALUATIONS, EvaluationLimits
from thermocline.runtime.settings import Settings, split_address


@dataclass(slots=True, kw_only=True)
class Certificate:
    """Paths of certificate and key, the TLS context, and the hash that SCRAM channel binding uses."""

    cert: Path
    key: Path
    context: ssl.SSLContext
    end_point: bytes | None = None

    def load(self) -> None:
        """Reads the files again; connections made from now on get the new certificate."""
        try:
            self.context.load_cert_chain(self.cert, self.key)
            self.end_point = hash_end_point(self.cert.read_bytes())
        except (OSError, ValueError, ssl.SSLError) as problem:
            raise GatewayNotStarted(
                f"The certificate {self.cert} with key {self.key} cannot be used: {problem}."
            ) from problem


def hash_end_point(pem: bytes) -> bytes | None:
    """The hash of a certificate that RFC 5929 calls tls-server-end-point; `None` where it defines none."""
    certificate = x509.load_pem_x509_certificate(pem)
    algorithm = certificate.signature_hash_algorithm
    if algorithm is None:
        return None
    weak = isinstance(algorithm, hashes.MD5 | hashes.SHA1)
    return certificate.fingerprint(hashes.SHA256() if weak else algorithm)


def read_certificate(cert: Path, key: Path) -> Certificate:
    """A server's TLS context, version 1.2 at least."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate = Certificate(cert=cert, key=key, context=context)
    certificate.load()
    return certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """Configuration of one gateway."""

    dsn: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    max_connections: int = 2000
    max_connections_per_address: int | None = None
    workers: int = 16
    executors: int = 64
    duckdb_threads: int = field(default_factory=lambda: os.cpu_count() or 2)
    memory: MemoryLimits = field(default_factory=MemoryLimits)
    statement_timeout_seconds: float = 0
    slow_statement_seconds: float = 5
    startup_timeout_seconds: float = 10
    login_timeout_seconds: float = 30
    drain_seconds: float = 10
    evaluations: EvaluationLimits = DEFAULT_EVALUATIONS
    certificate: Certificate | None = None
    tls_required: bool = False

    @property
    def connections_of_address(self) -> int:
        """The most connections of one address; from ten connections on a tenth is left for others."""
        if self.max_connections_per_address is not None:
            return self.max_connections_per_address
        return self.max_connections - self.max_connections // 10


def build_config(settings: Settings) -> GatewayConfig:
    """The configuration from the settings."""
    if settings.dsn is None:
        raise NoStack
    host, port = split_address(settings.gateway_listen)
    http_host, http_port = (
        split_address(settings.gateway_http_listen) if settings.gateway_http_listen else ("127.0.0.1", None)
    )
    if (settings.gateway_tls_cert is None) != (settings.gateway_tls_key is None):
        raise GatewayNotStarted("gateway_tls_cert and gateway_tls_key belong together; one of them is missing.")
    if settings.gateway_tls_required and settings.gateway_tls_cert is None:
        raise GatewayNotStarted("gateway_tls_required needs gateway_tls_cert and gateway_tls_key.")
    certificate = None
    if settings.gateway_tls_cert is not None and settings.gateway_tls_key is not None:
        certificate = read_certificate(settings.gateway_tls_cert, settings.gateway_tls_key)
    return GatewayConfig(
        dsn=settings.dsn,
        host=host,
        port=port,
        http_host=http_host,
        http_port=http_port,
        max_connections=settings.gateway_max_connections,
        max_connections_per_address=settings.gateway_max_connections_per_address,
        executors=settings.gateway_executors,
        memory=MemoryLimits(
            whole_bytes=settings.gateway_memory_limit_bytes,
            connection_bytes=settings.gateway_connection_memory_bytes,
            spill_bytes=settings.gateway_spill_bytes,
        ),
        statement_timeout_seconds=settings.gateway_statement_timeout_seconds,
        slow_statement_seconds=settings.gateway_slow_statement_seconds,
        drain_seconds=settings.gateway_drain_seconds,
        evaluations=EvaluationLimits(
            at_once=settings.gateway_evaluations, candidate_limit_bytes=settings.gateway_candidate_limit_bytes
        ),
        certificate=certificate,
        tls_required=settings.gateway_tls_required,
    )
