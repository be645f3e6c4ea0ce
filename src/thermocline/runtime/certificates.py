"""Self-signed certificates of a server: made once, stored with their key, renewed before they expire."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from thermocline.errors import DirectoryUnusable

VALID_DAYS, RENEWED_DAYS_BEFORE = 825, 60


def keep_certificate(directory: Path, stem: str, names: tuple[str, ...], *, now: dt.datetime) -> tuple[Path, Path]:
    """The paths of a certificate for these host names or addresses and of its key; made anew when missing, due, or for
    other names."""
    cert, key = directory / f"{stem}.crt", directory / f"{stem}.key"
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not key.exists() or not _is_good(cert, names, now):
            _write(cert, key, names, now)
    except OSError as problem:
        raise DirectoryUnusable(f"The certificate {cert} cannot be kept: {problem.strerror}.") from problem
    return cert, key


def _is_good(cert: Path, names: tuple[str, ...], now: dt.datetime) -> bool:
    if not cert.exists():
        return False
    try:
        made = x509.load_pem_x509_certificate(cert.read_bytes())
        held = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    due = made.not_valid_after_utc - dt.timedelta(days=RENEWED_DAYS_BEFORE)
    return now < due and set(_general_names(names)) <= set(held)


def _general_names(names: tuple[str, ...]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _write(cert: Path, key: Path, names: tuple[str, ...], now: dt.datetime) -> None:
    secret = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"thermocline {cert.stem}")])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(_general_names(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(secret, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    _replace(key, secret.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain), 0o600)
    _replace(cert, made.public_bytes(serialization.Encoding.PEM), 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode), "wb") as handle:
        handle.write(content)
    fresh.replace(path)
