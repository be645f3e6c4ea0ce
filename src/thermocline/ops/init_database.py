"""Prepares a database: catalog, postgres_fdw, the way to the gateway, and the gateway's login.

Everything is looked at first and changed only where it differs, so it may be repeated at any time and from several shells at once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from psycopg import sql

from thermocline import pg
from thermocline.catalog.migrate import apply_migrations
from thermocline.errors import MissingPrivilege

GATEWAY_SERVER = "thermocline_gateway"
GATEWAY_LOGIN = "thermocline"
FETCH_ROWS = 50_000
_LOCK_KEY = 7_461_001_914
_QUERIES = pg.load_queries("thermocline.ops", "queries/init_database.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAddress:
    """Where Postgres finds the gateway. Without a password the login is kept as it is, and made where there is none."""

    host: str
    port: int
    password: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """What was done, one line each, and the catalog's version afterwards."""

    catalog_version: int
    changes: tuple[str, ...]


def init_database(dsn: str, gateway: GatewayAddress, *, connect_timeout_seconds: int = 5) -> InitReport:
    """Create or upgrade the catalog and the objects that lead to the gateway."""
    with pg.connect(dsn, connect_timeout_seconds=connect_timeout_seconds, application_name="thermocline init") as conn:
        pg.check_version(conn)
        _check_privileges(conn)
        version = apply_migrations(conn)
        conn.commit()
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        changes = [*_apply_extension(conn), *_apply_server(conn, gateway), *_apply_login(conn, gateway)]
    return InitReport(catalog_version=version, changes=tuple(changes))


def _check_privileges(conn: pg.Connection) -> None:
    row = conn.execute(_QUERIES["privileges"]).fetchone()
    assert row is not None
    can_create, has_catalog, has_fdw, fdw_available = row
    if not (can_create or has_catalog):
        raise MissingPrivilege(
            f"The role {conn.info.user} may not create schemas in database {conn.info.dbname}.",
            hint=f"As its owner: GRANT CREATE ON DATABASE {conn.info.dbname} TO {conn.info.user};",
        )
    if not has_fdw and not fdw_available:
        raise MissingPrivilege("The extension postgres_fdw is not installed on this server.", hint="Install Postgres' contrib package.")


def _apply_extension(conn: pg.Connection) -> list[str]:
    if _exists(conn, "has_extension", []):
        return []
    conn.execute("create extension postgres_fdw schema public")
    return ["created extension postgres_fdw"]


def _apply_server(conn: pg.Connection, gateway: GatewayAddress) -> list[str]:
    row = conn.execute(_QUERIES["server_options"], [GATEWAY_SERVER]).fetchone()
    wished = {"host": gateway.host, "port": str(gateway.port), "dbname": conn.info.dbname, "fetch_size": str(FETCH_ROWS)}
    server = sql.Identifier(GATEWAY_SERVER)
    if row is None:
        options = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in wished.items())
        conn.execute(sql.SQL("create server {} foreign data wrapper postgres_fdw options ({})").format(server, options))
        return [f"created server {GATEWAY_SERVER} at {gateway.host}:{gateway.port}"]
    known = dict(option.split("=", 1) for option in row[0] or ())
    changed = {name: value for name, value in wished.items() if known.get(name) != value}
    if not changed:
        return []
    options = sql.SQL(", ").join(
        sql.SQL("{} {} {}").format(sql.SQL("set" if name in known else "add"), sql.Identifier(name), sql.Literal(value))
        for name, value in changed.items()
    )
    conn.execute(sql.SQL("alter server {} options ({})").format(server, options))
    return [f"server {GATEWAY_SERVER} now leads to {gateway.host}:{gateway.port}"]


def _apply_login(conn: pg.Connection, gateway: GatewayAddress) -> list[str]:
    """The verifier that the gateway checks and the user mapping that postgres_fdw answers with hold the same password."""
    mapped = _exists(conn, "has_mapping", [GATEWAY_SERVER])
    has_login = _exists(conn, "has_login", [GATEWAY_LOGIN])
    if gateway.password is None and mapped and has_login:
        return []
    if gateway.password is not None and mapped and has_login and _mapping_matches(conn, gateway.password):
        return []
    password = gateway.password or secrets.token_urlsafe(24)
    verifier = conn.pgconn.encrypt_password(password.encode(), GATEWAY_LOGIN.encode(), b"scram-sha-256").decode()
    conn.execute(_QUERIES["put_login"], [GATEWAY_LOGIN, verifier])
    verb = "alter user mapping for current_user server {} options (set user {}, set password {})"
    if not mapped:
        verb = "create user mapping for current_user server {} options (user {}, password {})"
    conn.execute(sql.SQL(verb).format(sql.Identifier(GATEWAY_SERVER), sql.Literal(GATEWAY_LOGIN), sql.Literal(password)))
    return [f"set the password of the gateway login {GATEWAY_LOGIN}"]


def _mapping_matches(conn: pg.Connection, password: str) -> bool:
    return _exists(conn, "mapping_has_password", [GATEWAY_SERVER, f"password={password}"])


def _exists(conn: pg.Connection, query: str, parameters: list[str]) -> bool:
    row = conn.execute(_QUERIES[query], parameters).fetchone()
    return bool(row and row[0])
