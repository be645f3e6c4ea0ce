"""The foreign server of the gateway and the login each owner uses for it.

The password exists in the owner's user mapping alone; the catalog keeps only its SCRAM verifier.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from psycopg import sql

from thermocline.runtime.pg import Connection
from thermocline.seam.objects import SERVER

_LOCK_KEY = 7_461_001_915

ROOT_CERTIFICATE = "thermocline_gateway.crt"
"""In the embedded Postgres' data directory, where its backends stand: so the name alone leads to it, wherever the
directory is."""

GatewayTls = Literal["verified", "bound", "left"]
"""How Postgres makes sure of the gateway: by our own certificate in its data directory; by channel binding, which needs
no file there; or as somebody else set the server up."""

_TLS_OPTIONS: Mapping[GatewayTls, Mapping[str, str]] = {
    "verified": {"sslmode": "verify-full", "sslrootcert": ROOT_CERTIFICATE},
    "bound": {"sslmode": "require", "channel_binding": "require"},
    "left": {},
}
# A gateway that cannot be reached is an error within seconds, also on a connection that is open already.
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "4",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


def apply_gateway_server(conn: Connection, owner: str, *, host: str, port: str, password: str) -> None:
    """Create the server with this address where it is missing, and give the owner a login. One session at a time.

    The address of a server that is there belongs to the database: `point_server_at` alone changes it.
    """
    conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
    conn.execute("create extension if not exists postgres_fdw")
    server = sql.Identifier(SERVER)
    if conn.execute("select 1 from pg_foreign_server where srvname = %s", [SERVER]).fetchone() is None:
        conn.execute(
            sql.SQL(
                "create server {} foreign data wrapper postgres_fdw options"
                " (host {}, port {}, dbname 'lake', fetch_size '10000', updatable 'false', truncatable 'false')"
            ).format(server, sql.Literal(host), sql.Literal(port))
        )
        _alter(conn, {name: ("add", value) for name, value in _PATIENCE.items()})
    apply_login(conn, owner, password)


def apply_login(conn: Connection, owner: str, password: str) -> None:
    """A login of the owner's at the gateway, unless there is one; the password is known to Postgres alone."""
    server = sql.Identifier(SERVER)
    conn.execute(sql.SQL("grant usage on foreign server {} to {}").format(server, sql.Identifier(owner)))
    has_mapping = conn.execute(
        "select 1 from pg_user_mappings where srvname = %s and usename = %s", [SERVER, owner]
    ).fetchone()
    has_login = conn.execute(
        "select 1 from thermocline.gateway_logins l join pg_roles r on r.rolname = l.name"
        " where l.name = %s and l.role_oid = r.oid",
        [owner],
    ).fetchone()
    if has_mapping and has_login:
        return
    conn.execute(sql.SQL("drop user mapping if exists for {} server {}").format(sql.Identifier(owner), server))
    conn.execute(
        sql.SQL("create user mapping for {} server {} options (user {}, password {})").format(
            sql.Identifier(owner), server, sql.Literal(owner), sql.Literal(password)
        )
    )
    verifier = conn.pgconn.encrypt_password(password.encode(), owner.encode(), b"scram-sha-256").decode()
    conn.execute(
        "insert into thermocline.gateway_logins (name, verifier, role_oid) values (%s, %s, to_regrole(quote_ident(%s)))"
        " on conflict (name) do update set verifier = excluded.verifier, role_oid = excluded.role_oid",
        [owner, verifier, owner],
    )


def read_server_address(conn: Connection) -> tuple[str, str] | None:
    """Host and port of the gateway, each a list in libpq's form; None where there is no server yet."""
    held = _read_options(conn)
    return (held.get("host", ""), held.get("port", "")) if held else None


def point_server_at(conn: Connection, host: str, port: str) -> None:
    """Change the gateway's address when it moved; the next connection uses it."""
    held = _read_options(conn)
    if held and (held.get("host"), held.get("port")) != (host, port):
        _alter(conn, {"host": ("set", host), "port": ("set", port)})


def apply_tls(conn: Connection, tls: GatewayTls) -> None:
    """How Postgres makes sure that it talks to the gateway. Options that others set are left alone, ours are taken
    back."""
    held, wanted = _read_options(conn), _TLS_OPTIONS[tls]
    ours = any(given and given.items() <= held.items() for given in _TLS_OPTIONS.values())
    if not ours and {"sslmode", "sslrootcert", "channel_binding"} & held.keys():
        return
    changes = {
        name: ("set" if name in held else "add", value) for name, value in wanted.items() if held.get(name) != value
    }
    if ours:
        changes |= {
            name: ("drop", "")
            for name in ("sslmode", "sslrootcert", "channel_binding")
            if name in held and name not in wanted
        }
    if changes:
        _alter(conn, changes)


def _read_options(conn: Connection) -> dict[str, str]:
    row = conn.execute("select srvoptions from pg_foreign_server where srvname = %s", [SERVER]).fetchone()
    pairs = (option.partition("=") for option in (row[0] or ()) if row) if row else ()
    return {name: value for name, _, value in pairs}


def _alter(conn: Connection, changes: Mapping[str, tuple[str, str]]) -> None:
    """Changes options of the server: each name with `add`, `set` or `drop` and its value."""
    listed = [
        sql.SQL("{} {}").format(sql.SQL(verb), sql.Identifier(name))
        + (sql.SQL(" {}").format(sql.Literal(value)) if verb != "drop" else sql.SQL(""))
        for name, (verb, value) in changes.items()
    ]
    conn.execute(sql.SQL("alter server {} options ({})").format(sql.Identifier(SERVER), sql.SQL(", ").join(listed)))
