"""SCRAM-SHA-256, server side, with channel binding where the connection is encrypted, against verifiers in Postgres'
own form.

A login that does not exist runs through the same exchange with a salt derived from its name, so nothing tells it from a
wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

import scramp

MECHANISM = "SCRAM-SHA-256"
BOUND_MECHANISM = "SCRAM-SHA-256-PLUS"
_ITERATIONS = 4096
_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_CLIENT_FIRST = re.compile(
    r"(?P<gs2>(?P<flag>[ny]|p=tls-server-end-point),(?:a=[^,]*)?,)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]+)(?:,.*)?)",
    re.DOTALL,
)
_CLIENT_FINAL = re.compile(
    r"(?P<unproved>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[^p][^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SECRET = secrets.token_bytes(32)


class WrongCredentials(Exception):
    """The exchange failed; whichever way, the client hears the same sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """What a server keeps of a password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def make_verifier(password: str, *, iterations: int = _ITERATIONS) -> str:
    """A verifier in Postgres' form for `thermocline.gateway_logins`."""
    salt, stored, server, rounds = scramp.ScramMechanism(MECHANISM).make_auth_info(password, iteration_count=iterations)
    salt64, stored64, server64 = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"{MECHANISM}${rounds}:{salt64}${stored64}:{server64}"


def parse_verifier(text: str) -> Verifier | None:
    """The parts of a verifier, or `None` when it is not one."""
    found = _VERIFIER.fullmatch(text)
    if not found:
        return None
    salt, stored, server = (base64.b64decode(found[part]) for part in (2, 3, 4))
    return Verifier(iterations=int(found[1]), salt=salt, stored_key=stored, server_key=server)


def _stand_in(user: str) -> Verifier:
    salt = hmac.digest(_SECRET, user.encode("utf-8", "surrogateescape"), hashlib.sha256)[:16]
    return Verifier(
        iterations=_ITERATIONS, salt=salt, stored_key=secrets.token_bytes(32), server_key=secrets.token_bytes(32)
    )


class ScramExchange:
    """One login's exchange (RFC 5802): the client's first message, then its proof.

    Written out here because libpq leaves the name in the SASL message empty (the startup message's name counts), which
    scramp refuses.
    """

    def __init__(
        self,
        user: str,
        verifier_text: str | None,
        *,
        mechanism: str = MECHANISM,
        end_point: bytes | None = None,
        nonce: str | None = None,
    ) -> None:
        """`end_point` is the hash of the certificate that the client saw, where there is one: then both mechanisms are
        offered.

        `nonce` is random unless an exchange of the past is gone through again.
        """
        self._flags = (
            ("p=tls-server-end-point",) if mechanism == BOUND_MECHANISM else ("n", "y") if end_point is None else ("n",)
        )
        self._end_point = end_point if mechanism == BOUND_MECHANISM else b""
        known = parse_verifier(verifier_text) if verifier_text else None
        self._exists = known is not None
        self._verifier = known or _stand_in(user)
        self._nonce = nonce if nonce is not None else base64.b64encode(secrets.token_bytes(18)).decode()
        self._client_first_bare = ""
        self._server_first = ""
        self._binding = ""

    def first(self, data: bytes) -> bytes:
        """The server's challenge."""
        found = _CLIENT_FIRST.fullmatch(_ascii(data))
        # A client that could bind and was told that we cannot ("y") was lied to by somebody in between.
        if not found or found["flag"] not in self._flags or self._end_point is None:
            raise WrongCredentials
        self._binding = base64.b64encode(found["gs2"].encode() + self._end_point).decode()
        self._client_first_bare = found["bare"]
        self._nonce = found["nonce"] + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first.encode()

    def final(self, data: bytes) -> bytes:
        """The server's own proof, once the client's was right."""
        found = _CLIENT_FINAL.fullmatch(_ascii(data))
        if not found or found["binding"] != self._binding or found["nonce"] != self._nonce:
            raise WrongCredentials
        signed = f"{self._client_first_bare},{self._server_first},{found['unproved']}".encode()
        signature = hmac.digest(self._verifier.stored_key, signed, hashlib.sha256)
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except binascii.Error as bad:
            raise WrongCredentials from bad
        client_key = bytes(a ^ b for a, b in zip(proof.ljust(32, b"\0")[:32], signature, strict=True))
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if not right or not self._exists:
            raise WrongCredentials
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, signed, hashlib.sha256))


def _ascii(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise WrongCredentials from bad
