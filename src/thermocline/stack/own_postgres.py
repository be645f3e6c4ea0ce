"""The Postgres that a stack was given by a DSN: resolved once as libpq resolves it, and remembered in DIR/stack.json.

What libpq takes from the environment, a service file or a passfile is written out, so that every later process and
command reaches the same server from any shell and directory. A password that a passfile holds stays there; any other
one goes into the stack's own passfile, and the password of an encrypted client key into a file beside it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from thermocline.errors import OtherDsn
from thermocline.ops.admin.places import Places, read_places
from thermocline.runtime import pg
from thermocline.runtime.settings_layers import LoadedSettings
from thermocline.stack.credentials import passfile_path, stack_dsn
from thermocline.stack.state import StackState

_OF_THE_SESSION = ("application_name", "fallback_application_name", "connect_timeout", "client_encoding")
_RESOLVED = ("service", "servicefile")
_SECRET = ("sslpassword",)
_FILES = ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPostgres:
    """Its connection parameters without a password, the role, the password that libpq used, and what is recorded in the
    database; `keeps_password`: no file of the user's holds the password. `key_password` opens the client key."""

    parameters: Mapping[str, str]
    role: str
    password: str = field(repr=False)
    keeps_password: bool
    key_password: str | None = field(repr=False)
    places: Places


def find_own_postgres(
    loaded: LoadedSettings, recorded: StackState | None, *, take_over: bool = False
) -> OwnPostgres | None:
    """The Postgres of the DSN that was given, else of the one that the stack remembers; None: the embedded one.

    Refuses a DSN that leads elsewhere than the stack's.
    """
    given = loaded.values.dsn
    if recorded is not None and recorded.embedded:
        if given is not None and _target(conninfo_to_dict(given)) != _target_of(recorded):
            raise OtherDsn(
                f"The stack in {loaded.values.dir} has a Postgres of its own ({recorded.postgres_dsn}), and the DSN "
                f"{pg.without_password(given)} was given."
            )
        return None
    dsn = given or (stack_dsn(loaded.values.dir, recorded.postgres_dsn) if recorded is not None else None)
    if dsn is None:
        return None
    with pg.connect(dsn, connect_timeout_seconds=loaded.values.connect_timeout_seconds) as conn:
        pg.check_version(conn)
        own = _resolve(conn, dsn, loaded.values.dir)
    if recorded is not None and not take_over and _target(own.parameters) != _target_of(recorded):
        raise OtherDsn(
            f"The stack in {loaded.values.dir} belongs to {pg.without_password(recorded.postgres_dsn)}, and the DSN "
            f"{pg.without_password(dsn)} was given.",
            hint=f"{OtherDsn.hint} With --take-over the stack goes over to the new one.",
        )
    return own


def _resolve(conn: pg.Connection, dsn: str, directory: Path) -> OwnPostgres:
    # PQconninfo has a password that came from the DSN, the environment or a service; PQpass also one of a passfile.
    options = {option.keyword.decode(): option.val for option in conn.pgconn.info if option.val is not None}
    parameters = {
        name: value
        for name, value in conn.info.get_parameters().items()
        if name not in (*_OF_THE_SESSION, *_RESOLVED, *_SECRET)
    }
    _restore_hosts(parameters, conninfo_to_dict(dsn))
    passfile = options.get("passfile", b"").decode()
    if conn.info.password and passfile:
        parameters["passfile"] = passfile
    for name in _FILES:
        if name in parameters and parameters[name] != "system":
            parameters[name] = str(Path(parameters[name]).absolute())
    is_ours = parameters.get("passfile") == str(passfile_path(directory))
    keeps_password = bool(conn.info.password) and ("password" in options or is_ours)
    if keeps_password:
        parameters.pop("passfile", None)
    return OwnPostgres(
        parameters=parameters,
        role=conn.info.user,
        password=conn.info.password,
        keeps_password=keeps_password,
        key_password=options["sslpassword"].decode() if options.get("sslpassword") else None,
        places=read_places(conn),
    )


def _restore_hosts(parameters: dict[str, str], given: Mapping[str, object]) -> None:
    """psycopg resolves host names itself and tries one host of several; libpq fills in a default that clients before
    version 16 do not know."""
    names = {name: given.get(name) or os.environ.get(f"PG{name.upper()}") for name in ("host", "hostaddr", "port")}
    if names["host"] and not names["hostaddr"]:
        parameters.pop("hostaddr", None)
    parameters |= {name: str(value) for name, value in names.items() if value}
    if parameters.get("sslcertmode") == "allow":
        del parameters["sslcertmode"]


def _target_of(recorded: StackState) -> tuple[str, ...]:
    return _target(conninfo_to_dict(recorded.postgres_dsn))


def _target(parameters: Mapping[str, object]) -> tuple[str, ...]:
    """Which database it is: role, password and encryption may change. With an address, libpq connects there; the name
    beside it is for certificates and passfiles."""
    host = str(parameters.get("hostaddr") or parameters.get("host") or "")
    return host, str(parameters.get("port") or "5432"), str(parameters.get("dbname") or parameters.get("user") or "")
