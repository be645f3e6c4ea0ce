"""A real S3 server (moto's, in a process of its own) behind a proxy that checks the access key and breaks answers on
request."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import unquote

import pyarrow.fs as fs

from thermocline.runtime.file_io import open_store
from thermocline.runtime.object_store import ObjectStore
from thermocline.runtime.postgres_server import free_port

BUCKET = "lake"
ACCESS_KEY, SECRET_KEY = "AKIATHERMOCLINE", "not-a-secret-at-all"
Fault = Literal["forbidden", "missing", "truncated", "busy"]
_REFUSALS: dict[str, tuple[int, str]] = {
    "forbidden": (403, "AccessDenied"),
    "missing": (404, "NoSuchKey"),
    "busy": (503, "SlowDown"),
}
_LISTED = re.compile(rb"(<Key>([^<]*)</Key>\s*<LastModified>)([^<]*)")
_SERVER = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"


@dataclass
class Bucket:
    """The store as a test uses it. `faults` are answered to reads of keys that contain the text, so many times (-1:
    always); requests that begin as one of `refused` ("PUT", "GET /lake/") are answered with 403.
    """

    store: ObjectStore
    refused: list[str] = field(default_factory=list)
    faults: list[tuple[str, Fault, int]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    shifts: list[tuple[str, timedelta]] = field(default_factory=list)
    """The store tells times of keys that contain the text shifted by so much; the first that fits counts."""

    def shift_of(self, key: str) -> timedelta:
        return next((shift for text, shift in self.shifts if text in key), timedelta())

    def take_fault(self, method: str, path: str) -> Fault | None:
        self.requests.append(f"{method} {path}")
        if any(f"{method} {path}".startswith(text) for text in self.refused):
            return "forbidden"
        for at, (text, fault, times) in enumerate(self.faults):
            if method in ("GET", "HEAD") and text in path and times:
                self.faults[at] = (text, fault, times - 1)
                return fault
        return None

    def files(self) -> list[str]:
        found = open_store(self.store).get_file_info(fs.FileSelector(BUCKET, recursive=True))
        return sorted(info.path for info in found if info.type == fs.FileType.File)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def log_message(self, format: str, *args: object) -> None:
        return

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _relay(self) -> None:
        body = self._body()
        fault = self.server.bucket.take_fault(self.command, self.path)
        if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
            self._refuse(403, "InvalidAccessKeyId")
        elif fault in _REFUSALS:
            self._refuse(*_REFUSALS[fault])
        else:
            self._forward(body, cut=fault == "truncated")

    def _refuse(self, status: int, code: str) -> None:
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told to</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def _forward(self, body: bytes, *, cut: bool) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=60)
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in ("transfer-encoding", "expect")
        }
        upstream.request(self.command, self.path, body=body, headers={**headers, "Content-Length": str(len(body))})
        answer = upstream.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        content = _LISTED.sub(self._shift_listed, content)
        for name, said in answer.getheaders():
            value = self._shift_told(said) if name.lower() == "last-modified" else said
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "server", "date"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut
        upstream.close()

    def _shift_told(self, value: str) -> str:
        return format_datetime(
            parsedate_to_datetime(value) + self.server.bucket.shift_of(unquote(self.path)), usegmt=True
        )

    def _shift_listed(self, found: re.Match[bytes]) -> bytes:
        moment = datetime.fromisoformat(found[3].decode()) + self.server.bucket.shift_of(unquote(found[2].decode()))
        return found[1] + f"{moment:%Y-%m-%dT%H:%M:%S}.000Z".encode()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay  # noqa: N815


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bucket: Bucket, upstream_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bucket, self.upstream_port = bucket, upstream_port

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnected."""


@contextmanager
def serve_bucket() -> Iterator[Bucket]:
    """A running store with one empty bucket."""
    upstream_port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(upstream_port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _wait_for(upstream_port)
    bucket = Bucket(ObjectStore())
    proxy = _Proxy(bucket, upstream_port)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    bucket.store = ObjectStore(endpoint=endpoint, path_style=True, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    try:
        host = f"127.0.0.1:{upstream_port}"
        fs.S3FileSystem(
            access_key="a", secret_key="b", endpoint_override=host, scheme="http", allow_bucket_creation=True
        ).create_dir(BUCKET)
        yield bucket
    finally:
        proxy.shutdown()
        proxy.server_close()
        process.terminate()
        process.wait(timeout=20)


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the S3 server did not start")
