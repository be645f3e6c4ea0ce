"""Check everything that can fail before a process is started: directories, ports, the DSN, Java and the jars."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from psycopg.conninfo import make_conninfo

from thermocline.errors import PortTaken
from thermocline.runtime import artifacts, pg
from thermocline.runtime.certificates import keep_certificate
from thermocline.runtime.directories import check_directory, check_warehouse
from thermocline.runtime.object_store import is_object_location
from thermocline.runtime.postgres_server import check_port_free, free_port
from thermocline.runtime.settings import Settings, split_address
from thermocline.runtime.settings_layers import BUILT_IN, LoadedSettings
from thermocline.stack.credentials import PassEntry, keep_password, store_key_password, write_passfile
from thermocline.stack.own_postgres import OwnPostgres, find_own_postgres
from thermocline.stack.state import ProcessRecord, StackState, read_state, state_path

# Not `thermocline`: "$user" in the search path would then lead to our catalog's schema, and `events` to its table.
SUPERUSER = "postgres"
DATABASE = "thermocline"


def prepare_stack(loaded: LoadedSettings, *, take_over: bool = False) -> StackState:
    """The state to start from: recorded where there is one, chosen anew where not. Starts nothing."""
    directory = loaded.values.dir
    check_directory(directory, "The stack's directory")
    recorded = read_state(directory)
    own = find_own_postgres(loaded, recorded, take_over=take_over)
    warehouse = _choose_warehouse(loaded.values, recorded, own, take_over=take_over)
    check_warehouse(warehouse, is_shared=loaded.values.shared_files)
    artifacts.java_path()
    artifacts.spark_jar_paths(object_store=is_object_location(warehouse))
    if own is None:
        artifacts.postgres_home()
    return _choose_state(loaded, recorded, own, warehouse)


def check_ports(directory: Path, state: StackState) -> None:
    """Refuse when another program listens on a port that this stack recorded."""
    ports = {
        "the gateway": (state.gateway_host, state.gateway_port),
        "the HTTP API": (state.http_host, state.http_port),
    }
    if state.gateway_http_port is not None:
        ports["the gateway's metrics"] = (state.gateway_http_host, state.gateway_http_port)
    if state.postgres_port is not None:
        ports["Postgres"] = ("127.0.0.1", state.postgres_port)
    for what, (host, port) in ports.items():
        try:
            check_port_free(port, host)
        except PortTaken:
            raise PortTaken(
                (
                    f"Port {port} on {host} is taken by another program, and {state_path(directory)} records it "
                    f"for {what}."
                ),
                hint=(
                    f"Stop that program (`ss -ltnp 'sport = :{port}'` names it), or change the port in "
                    f"{state_path(directory)}."
                ),
            ) from None


def _choose_warehouse(
    settings: Settings, recorded: StackState | None, own: OwnPostgres | None, *, take_over: bool
) -> str:
    """As the database says, or said at the last start; what it says in the end, `init_database` tells."""
    held = own.places.warehouse if own is not None else None
    if held is None and recorded is not None:
        held = recorded.warehouse
    given = settings.given_warehouse
    return given if given and (take_over or held is None) else held or settings.warehouse_location


def _choose_state(
    loaded: LoadedSettings, recorded: StackState | None, own: OwnPostgres | None, warehouse: str
) -> StackState:
    directory = loaded.values.dir
    known = (recorded.gateway_host, recorded.gateway_port) if recorded else _free_address(own)
    gateway_host, gateway_port = _address(loaded, "gateway_listen", known)
    metrics_host, metrics_port = _address(
        loaded,
        "gateway_http_listen",
        (recorded.gateway_http_host, recorded.gateway_http_port) if recorded else None,
    )
    cert, key = _keep_gateway_certificate(loaded, gateway_host)
    http_host, http_port = _address(
        loaded, "http_listen", (recorded.http_host, recorded.http_port) if recorded else None
    )
    role, postgres_port, parts, entries = SUPERUSER, None, {}, []
    if own is None:
        postgres_port = (recorded and recorded.postgres_port) or free_port()
        password = keep_password(directory, "postgres_password")
        entries = _entries_at(
            ("127.0.0.1", postgres_port), (gateway_host, gateway_port), user=SUPERUSER, password=password
        )
        parts = {"host": "127.0.0.1", "port": str(postgres_port), "user": SUPERUSER, "dbname": DATABASE}
    else:
        role, parts = own.role, dict(own.parameters)
        if own.password:
            entries = _entries_at((gateway_host, gateway_port), user=role, password=own.password)
        if own.keeps_password:
            entries.append(_own_entry(parts, own.password))
    store_key_password(directory, own.key_password if own is not None else None)
    passfile = str(write_passfile(directory, tuple(entries)))
    if own is None or own.keeps_password:
        parts["passfile"] = passfile
    return StackState(
        phase="starting",
        postgres_dsn=make_conninfo("", **parts),
        postgres_port=postgres_port,
        gateway_host=gateway_host,
        gateway_port=gateway_port,
        gateway_dsn=make_conninfo(
            "",
            host=gateway_host,
            port=gateway_port,
            user=role,
            dbname=str(parts.get("dbname") or DATABASE),
            passfile=passfile,
            **({"sslmode": "verify-full", "sslrootcert": cert} if cert else {}),
        ),
        gateway_http_host=metrics_host,
        gateway_http_port=metrics_port,
        gateway_cert=cert,
        gateway_key=key,
        http_host=http_host,
        http_port=http_port,
        warehouse=warehouse,
        supervisor=ProcessRecord(name="supervisor"),
    )


def _entries_at(*places: tuple[str, int], user: str, password: str) -> list[PassEntry]:
    """Passfile entries of a login; the gateway takes the same password as Postgres."""
    return [PassEntry(host=host, port=str(port), user=user, password=password) for host, port in places]


def _keep_gateway_certificate(loaded: LoadedSettings, host: str) -> tuple[str | None, str | None]:
    """The certificate that the stack signs for its gateway; none where one was given."""
    if loaded.values.gateway_tls_cert is not None:
        return None, None
    names = (host, "localhost", "127.0.0.1")
    cert, key = keep_certificate(loaded.values.dir / "tls", "gateway", names, now=datetime.now(UTC))
    return str(cert), str(key)


def _own_entry(parts: Mapping[str, str], password: str) -> PassEntry:
    host, port = str(parts.get("host") or "*"), str(parts.get("port") or "*")
    return PassEntry(
        host="*" if "," in host else host,
        port="*" if "," in port else port,
        user=str(parts.get("user") or "*"),
        password=password,
    )


def _address(loaded: LoadedSettings, key: str, recorded: tuple[str, int | None] | None) -> tuple[str, int]:
    if loaded.origins[key] != BUILT_IN:
        return split_address(getattr(loaded.values, key))
    host, port = recorded or ("127.0.0.1", None)
    return host, port or free_port()


def _free_address(own: OwnPostgres | None) -> tuple[str, int] | None:
    """Where Postgres looks for its gateway already, if that is on this machine and nobody listens there."""
    for address in (own.places.gateway or "").split(",") if own is not None else ():
        host, port = split_address(address) if address else ("", 0)
        if host in ("127.0.0.1", "localhost"):
            try:
                check_port_free(port, host)
            except PortTaken:
                continue
            return host, port
    return None


def process_environment(directory: Path) -> dict[str, str]:
    """What the stack's processes get in their environment: ours, and where the stack is.

    The stack's DSN is complete. What libpq would read from the environment besides it, passwords among it, might lead
    elsewhere.
    """
    others = {"THERMOCLINE_DSN", *pg.libpq_variables()}
    env = {name: value for name, value in os.environ.items() if name not in others}
    env["THERMOCLINE_DIR"] = str(directory)
    return env
