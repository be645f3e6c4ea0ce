"""An embedded Postgres: one cluster in one directory, started and stopped as a child process.

Postgres refuses to run as root, so root runs it as `postgres` or `nobody`; a directory that user cannot reach (below
/root, say) gets its cluster under /var/lib/thermocline and a symbolic link in its place, which is how the next start
finds it again.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import psycopg
from psycopg.conninfo import make_conninfo

from thermocline.errors import DirectoryUnusable, PortTaken, PostgresNotStarted, StackNotReadyInTime
from thermocline.runtime.artifacts import POSTGRES_VERSION, postgres_home
from thermocline.runtime.directories import make_private_directory
from thermocline.runtime.launch import launch_command

StopMode = Literal["smart", "fast", "immediate"]

FAST_TEST_SETTINGS: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For clusters that are thrown away: no flush to disk."""

RELOCATED_ROOT = Path("/var/lib/thermocline")
_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
_OLDEST_WITH_BUILTIN_LOCALES = 17
_START_TIMEOUT_SECONDS = 60.0


class PostgresServer:
    """A cluster in `data_dir` that listens on 127.0.0.1:`port`. `settings` are given to the server on every start."""

    def __init__(
        self,
        data_dir: Path | str,
        port: int,
        settings: Mapping[str, str] | None = None,
        *,
        superuser: str = "postgres",
        password: str,
        version: str = POSTGRES_VERSION,
        die_with_parent: bool = True,
        log_path: Path | str | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.port = port
        self.settings = dict(settings or {})
        self.superuser = superuser
        self.password = password
        self.version = version
        self.die_with_parent = die_with_parent
        self.log_path = Path(log_path) if log_path else self.data_dir.with_name(self.data_dir.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs as our child."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def dsn(self, dbname: str = "postgres") -> str:
        """A connection string with the password in it; for this process and its tests, not for printing."""
        return make_conninfo(
            host="127.0.0.1", port=self.port, user=self.superuser, password=self.password, dbname=dbname
        )

    def init(self) -> None:
        """Make the cluster; does nothing when it is made already."""
        if (self.data_dir / "PG_VERSION").exists():
            return
        final = self._choose_location()
        fresh = final.with_name(f"{final.name}.{secrets.token_hex(4)}.new")
        self._make_owned_directory(fresh)
        try:
            self._initdb(fresh)
            if final.exists():
                final.rmdir()
            fresh.rename(final)
        except OSError as problem:
            raise DirectoryUnusable(f"The Postgres cluster cannot be made in {final}: {problem.strerror}.") from problem
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def start(self) -> None:
        """Start the server and return once it answers."""
        check_port_free(self.port)
        home = postgres_home(self.version)
        given = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **self.settings}
        command = [str(home / "bin" / "postgres"), "-D", str(self.data_dir.resolve()), "-p", str(self.port)]
        command += [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        with self._open_log() as log:
            self._process = subprocess.Popen(
                launch_command(command, die_signal=signal.SIGINT if self.die_with_parent else 0, user=server_user()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env=_environment(),
            )
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop("immediate")
            raise

    def wait_until_ready(self, timeout_seconds: float = _START_TIMEOUT_SECONDS) -> None:
        """Connect until it works; refuses when the server ends or the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            if self._process is not None and (status := self._process.poll()) is not None:
                raise PostgresNotStarted(self._why_ended(status), hint=f"The server's log, {self.log_path}, says more.")
            try:
                psycopg.connect(self.dsn("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError as problem:
                reason = str(problem).strip().splitlines()[-1].rsplit("failed: ", 1)[-1].strip()
                # A server that is still starting answers differently; a wrong password stays wrong.
                if "authentication failed" in reason or time.monotonic() > deadline:
                    wrong = PostgresNotStarted if "authentication failed" in reason else StackNotReadyInTime
                    raise wrong(
                        f"The embedded Postgres on port {self.port} refuses connections: {reason}.",
                        hint=f"The server's log, {self.log_path}, says more.",
                    ) from problem
                time.sleep(0.05)

    def stop(self, mode: StopMode = "fast", timeout_seconds: float = 30.0) -> None:
        """Stop the server; a stop that takes too long becomes an immediate one, then a kill."""
        process = self._process
        if process is None:
            return
        for step in (_SIGNALS[mode], signal.SIGQUIT, signal.SIGKILL):
            if process.poll() is not None:
                break
            process.send_signal(step)
            try:
                process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def remove(self) -> None:
        """Stop the server and delete the cluster and its log, wherever they are."""
        self.stop("immediate")
        shutil.rmtree(self.data_dir.resolve(), ignore_errors=True)
        if self.data_dir.is_symlink():
            self.data_dir.unlink()
        self.log_path.unlink(missing_ok=True)

    def _choose_location(self) -> Path:
        """Where the cluster goes: `data_dir`, or a directory the server's user can reach, linked from there."""
        user = server_user()
        if self.data_dir.is_symlink():
            return self.data_dir.resolve()
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        if user is None or can_traverse(user, self.data_dir.parent):
            return self.data_dir
        RELOCATED_ROOT.mkdir(mode=0o755, parents=True, exist_ok=True)
        place = RELOCATED_ROOT / f"{self.data_dir.name}-{secrets.token_hex(8)}"
        if self.data_dir.is_dir():
            self.data_dir.rmdir()
        self.data_dir.symlink_to(place)
        return place

    def _make_owned_directory(self, directory: Path) -> None:
        try:
            directory.mkdir(mode=0o700, parents=True)
        except OSError as problem:
            raise DirectoryUnusable(
                f"The Postgres cluster cannot be made in {directory.parent}: {problem.strerror}."
            ) from problem
        if user := server_user():
            shutil.chown(directory, user, pwd.getpwnam(user).pw_gid)

    def _initdb(self, directory: Path) -> None:
        home, user = postgres_home(self.version), server_user()
        if int(self.version.split(".")[0]) >= _OLDEST_WITH_BUILTIN_LOCALES:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        else:
            locale = ["--locale=C"]
        flush = ["--no-sync"] if self.settings.get("fsync") == "off" else []
        with _password_file(self.password, user) as password_file:
            done = subprocess.run(
                launch_command(
                    [
                        *(home / "bin" / "initdb", "-D", directory, "-U", self.superuser),
                        *("--encoding=UTF8", "--auth=scram-sha-256", f"--pwfile={password_file}"),
                        *(*locale, *flush),
                    ],
                    user=user,
                ),
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env=_environment(),
            )
        if done.returncode != 0:
            lines = done.stderr.splitlines() or ["initdb gave no reason"]
            reason = next((line for line in lines if "error:" in line or "FATAL" in line), lines[-1])
            raise PostgresNotStarted(
                f"The Postgres cluster cannot be made in {self.data_dir}: {reason.strip()}.",
                hint="Look at free space and rights there.",
            )

    def _open_log(self) -> IO[bytes]:
        try:
            make_private_directory(self.log_path.parent)
            return self.log_path.open("ab")
        except OSError as problem:
            raise DirectoryUnusable(f"The log {self.log_path} cannot be written: {problem.strerror}.") from problem

    def _why_ended(self, status: int) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines() if self.log_path.exists() else []
        fatal = (
            [line for line in lines[-40:] if "FATAL:" in line or "could not" in line]
            or lines[-1:]
            or [f"exit status {status}"]
        )
        return f"The embedded Postgres on port {self.port} ended at its start: {fatal[-1].split('FATAL:')[-1].strip()}."


def server_user() -> str | None:
    """Who runs Postgres when we are root: postgres, else nobody; None when we are not root and run it as ourselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def can_traverse(user: str, directory: Path) -> bool:
    """Whether `user` may pass through `directory` and everything above it."""
    entry = pwd.getpwnam(user)
    groups = set(os.getgrouplist(user, entry.pw_gid))
    for step in (directory.resolve(), *directory.resolve().parents):
        seen = step.stat()
        needed = (
            stat.S_IXUSR if seen.st_uid == entry.pw_uid else stat.S_IXGRP if seen.st_gid in groups else stat.S_IXOTH
        )
        if not seen.st_mode & needed:
            return False
    return True


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_port_free(port: int, host: str = "127.0.0.1") -> None:
    """Refuse when another program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            raise PortTaken(
                f"Port {port} on {host} is taken by another program.", hint="Stop that program, or use another port."
            ) from problem


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {
        "LC_ALL": "C",
        "TZ": "UTC",
    }


@contextmanager
def _password_file(password: str, user: str | None) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile("w", prefix="tc-") as handle:
        handle.write(password + "\n")
        handle.flush()
        if user:
            shutil.chown(handle.name, user)
        yield Path(handle.name)
