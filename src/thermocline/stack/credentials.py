"""Passwords of a stack: made once, kept in DIR/secrets with mode 0600, and given to clients as a passfile.

No password appears on a command line, in stack.json or in `status`: the DSNs there name the passfile, and libpq reads
it. libpq reads no file for the password of an encrypted client key, so `stack_dsn` adds that one.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from thermocline.errors import DirectoryUnusable


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEntry:
    """One line of a passfile."""

    host: str
    port: str
    user: str
    password: str

    def render(self) -> str:
        return (
            ":".join(part.replace("\\", "\\\\").replace(":", "\\:") for part in (self.host, self.port))
            + ":*:"
            + self._render_login()
        )

    def _render_login(self) -> str:
        return ":".join(part.replace("\\", "\\\\").replace(":", "\\:") for part in (self.user, self.password))


def secrets_dir(directory: Path) -> Path:
    return directory / "secrets"


def passfile_path(directory: Path) -> Path:
    return secrets_dir(directory) / "pgpass"


def keep_password(directory: Path, name: str) -> str:
    """The stack's password of that name, made at the first call."""
    path = secrets_dir(directory) / name
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(24))
        return path.read_text(encoding="ascii")
    except OSError as problem:
        raise DirectoryUnusable(f"The password {path} cannot be kept: {problem.strerror}.") from problem


def forget_password(directory: Path, name: str) -> None:
    """Delete the password; the next `up` makes another one."""
    (secrets_dir(directory) / name).unlink(missing_ok=True)


def write_passfile(directory: Path, entries: tuple[PassEntry, ...]) -> Path:
    """Replace the passfile."""
    path = passfile_path(directory)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(path, "".join(entry.render() + "\n" for entry in entries))
    except OSError as problem:
        raise DirectoryUnusable(f"The passfile {path} cannot be written: {problem.strerror}.") from problem
    return path


def store_key_password(directory: Path, password: str | None) -> None:
    """Remember what opens the client key of the stack's DSN, or that nothing does."""
    path = _key_password_path(directory)
    try:
        if password is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_private(path, password)
    except OSError as problem:
        raise DirectoryUnusable(f"The password {path} cannot be kept: {problem.strerror}.") from problem


def stack_dsn(directory: Path, recorded: str) -> str:
    """The DSN to connect with: the recorded one, with the password of its client key if that is encrypted."""
    path = _key_password_path(directory)
    try:
        password = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return recorded
    except OSError as problem:
        raise DirectoryUnusable(f"The password {path} cannot be read: {problem.strerror}.") from problem
    from psycopg.conninfo import make_conninfo  # most stacks have no such key, and psycopg takes a while to load

    return make_conninfo(recorded, sslpassword=password)


def _key_password_path(directory: Path) -> Path:
    return secrets_dir(directory) / "sslpassword"


def _write_private(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
        handle.write(text)
    fresh.replace(path)
