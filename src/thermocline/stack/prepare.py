"""Everything that can be refused before a process is started: directories, ports, the DSN, Java and the jars."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from thermocline import artifacts, pg
from thermocline.errors import DirectoryUnusable, PortTaken
from thermocline.postgres_server import check_port_free, free_port
from thermocline.settings import LoadedSettings, Settings, split_address
from thermocline.stack.credentials import PassEntry, keep_password, passfile_path, write_passfile
from thermocline.stack.state import ProcessRecord, StackState, read_state, state_path

SUPERUSER = "thermocline"
DATABASE = "thermocline"
GATEWAY_LOGIN = "thermocline"
LEAST_FREE_BYTES = 64 * 1024 * 1024


def prepare_stack(loaded: LoadedSettings) -> StackState:
    """The state to start from: remembered where there is one, chosen anew where not. Starts nothing."""
    directory = loaded.values.dir
    check_directory(directory, "The stack's directory")
    check_warehouse(loaded.values.warehouse_location)
    artifacts.java_path()
    artifacts.spark_jar_paths()
    remembered = read_state(directory)
    state = _choose_state(loaded, remembered)
    if state.embedded:
        artifacts.postgres_home()
    else:
        _check_own_postgres(loaded.values)
    return state


def check_warehouse(location: str) -> None:
    """Refuse a local warehouse that cannot be written or is full; object stores are checked by whoever writes to them."""
    if "://" not in location or location.startswith("file://"):
        check_directory(Path(location.removeprefix("file://")), "The warehouse")


def check_directory(directory: Path, what: str) -> None:
    """Make the directory, write into it, and look at its free space."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"thermocline")
            probe.flush()
        free_bytes = shutil.disk_usage(directory).free
    except OSError as problem:
        raise DirectoryUnusable(
            f"{what} {directory} cannot be written: {problem.strerror}.", hint="Make it writable, free space there, or name another one."
        ) from problem
    if free_bytes < LEAST_FREE_BYTES:
        raise DirectoryUnusable(
            f"{what} {directory} has only {free_bytes // 2**20} MB free.", hint="Free some space there, or name another directory."
        )


def check_ports(directory: Path, state: StackState) -> None:
    """Refuse when somebody else took a port that this stack remembers."""
    ports = {"the gateway": (state.gateway_host, state.gateway_port), "the HTTP API": (state.http_host, state.http_port)}
    if state.postgres_port is not None:
        ports["Postgres"] = ("127.0.0.1", state.postgres_port)
    for what, (host, port) in ports.items():
        try:
            check_port_free(port, host)
        except PortTaken:
            raise PortTaken(
                f"Port {port} on {host} is taken by another program, and {state_path(directory)} remembers it for {what}.",
                hint=f"Stop that program (`ss -ltnp 'sport = :{port}'` names it), or change the port in {state_path(directory)}.",
            ) from None


def _choose_state(loaded: LoadedSettings, remembered: StackState | None) -> StackState:
    settings, directory = loaded.values, loaded.values.dir
    gateway_host, gateway_port = _address(
        loaded, "gateway_listen", (remembered.gateway_host, remembered.gateway_port) if remembered else None
    )
    http_host, http_port = _address(loaded, "http_listen", (remembered.http_host, remembered.http_port) if remembered else None)
    entries = [
        PassEntry(host=gateway_host, port=str(gateway_port), user=GATEWAY_LOGIN, password=keep_password(directory, "gateway_password"))
    ]
    if settings.dsn is None:
        postgres_port = (remembered and remembered.postgres_port) or free_port()
        password = keep_password(directory, "postgres_password")
        entries.append(PassEntry(host="127.0.0.1", port=str(postgres_port), user=SUPERUSER, password=password))
        parts: dict[str, Any] = {"host": "127.0.0.1", "port": postgres_port, "user": SUPERUSER, "dbname": DATABASE}
    else:
        postgres_port, parts = None, conninfo_to_dict(settings.dsn)
        if given := parts.pop("password", None):
            entries.append(_own_entry(parts, str(given)))
    passfile = str(write_passfile(directory, tuple(entries)))
    if postgres_port is not None or (settings.dsn and "passfile" not in parts and len(entries) > 1):
        parts["passfile"] = passfile
    return StackState(
        phase="starting",
        postgres_dsn=make_conninfo("", **parts),
        postgres_port=postgres_port,
        gateway_host=gateway_host,
        gateway_port=gateway_port,
        gateway_dsn=make_conninfo(
            "", host=gateway_host, port=gateway_port, user=GATEWAY_LOGIN, dbname=str(parts.get("dbname") or DATABASE), passfile=passfile
        ),
        http_host=http_host,
        http_port=http_port,
        warehouse=settings.warehouse or (remembered.warehouse if remembered else settings.warehouse_location),
        supervisor=ProcessRecord(name="supervisor"),
    )


def _own_entry(parts: dict[str, Any], password: str) -> PassEntry:
    host, port = str(parts.get("host") or "*"), str(parts.get("port") or "*")
    return PassEntry(
        host="*" if "," in host else host, port="*" if "," in port else port, user=str(parts.get("user") or "*"), password=password
    )


def _address(loaded: LoadedSettings, key: str, remembered: tuple[str, int] | None) -> tuple[str, int]:
    if loaded.origins[key] != "built in":
        return split_address(getattr(loaded.values, key))
    return remembered or ("127.0.0.1", free_port())


def _check_own_postgres(settings: Settings) -> None:
    assert settings.dsn is not None
    with pg.connect(settings.dsn, connect_timeout_seconds=settings.connect_timeout_seconds) as conn:
        pg.check_version(conn)


def process_environment(directory: Path) -> dict[str, str]:
    """What the stack's processes get in their environment: ours, and where the stack is; no password."""
    env = {name: value for name, value in os.environ.items() if name != "THERMOCLINE_DSN"}
    env["THERMOCLINE_DIR"] = str(directory)
    env["PGPASSFILE"] = str(passfile_path(directory))
    return env
