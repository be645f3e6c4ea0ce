"""Prepares a database: catalog, postgres_fdw, the way to the gateway, and a gateway login for the connecting role.

Everything is looked at first and changed only where it differs, so it may be repeated at any time and from several
shells at once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from psycopg import sql

from thermocline.catalog.database_identity import UnboundTable, apply_claim
from thermocline.catalog.migrate import apply_migrations
from thermocline.errors import ExtensionMissing, MissingPrivilege
from thermocline.runtime import pg
from thermocline.seam.foreign_server import GatewayTls, apply_gateway_server, apply_tls
from thermocline.seam.objects import SERVER

_LOCK_KEY = 7_461_001_914
_QUERIES = pg.load_queries("thermocline.ops", "queries/init_database.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAddress:
    """Where Postgres finds the gateway: one host and port, or lists of them as libpq takes them.

    Without a password the login is kept as it is, and made where there is none. Without `tls` the server's own options
    are kept.
    """

    host: str
    port: str
    password: str | None = None
    tls: GatewayTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """The catalog's version, the role that has a gateway login now, and where the gateway is looked for."""

    catalog_version: int
    gateway_login: str
    gateway: str


def init_database(dsn: str, gateway: GatewayAddress, *, connect_timeout_seconds: int = 5) -> InitReport:
    """Create or upgrade the catalog and the objects that lead to the gateway."""
    with pg.connect(dsn, connect_timeout_seconds=connect_timeout_seconds, application_name="thermocline init") as conn:
        pg.check_version(conn)
        role = check_privileges(conn)
        version = apply_migrations(conn)
        conn.commit()
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        password = gateway.password or secrets.token_urlsafe(24)
        apply_gateway_server(conn, role, host=gateway.host, port=gateway.port, password=password)
        if gateway.tls is not None:
            apply_tls(conn, gateway.tls)
        if gateway.password is not None:
            _apply_password(conn, role, gateway.password)
    return InitReport(catalog_version=version, gateway_login=role, gateway=f"{gateway.host}:{gateway.port}")


def claim_database(dsn: str, *, connect_timeout_seconds: int = 5) -> tuple[UnboundTable, ...]:
    """The lake belongs to this database from now on; the one it was copied from must be gone.

    Object numbers of a restored dump are bound anew by name, in one transaction; the tables that are not found stay
    unbound.
    """
    with pg.connect(dsn, connect_timeout_seconds=connect_timeout_seconds, application_name="thermocline init") as conn:
        return apply_claim(conn)


def rotate_logins(dsn: str, *, connect_timeout_seconds: int = 5) -> tuple[str, ...]:
    """A new password for every role's way to the gateway, all at once; the foreign server stays, and so do open
    connections."""
    with pg.connect(dsn, connect_timeout_seconds=connect_timeout_seconds, application_name="thermocline init") as conn:
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        roles = tuple(str(row[0]) for row in conn.execute(_QUERIES["mapped_roles"], [SERVER]))
        for role in roles:
            _apply_password(conn, role, secrets.token_urlsafe(24))
    return roles


def check_privileges(conn: pg.Connection) -> str:
    """The role we are; refuses when it lacks what a catalog and a foreign server need."""
    row = conn.execute(_QUERIES["privileges"]).fetchone()
    assert row is not None
    role, is_superuser, may_create, has_fdw, fdw_available, may_use_fdw = row
    quoted = sql.Identifier(role).as_string(conn)
    if not may_create:
        database = sql.Identifier(conn.info.dbname).as_string(conn)
        raise MissingPrivilege(
            f"Role {role} may not create schemas in database {conn.info.dbname}.",
            hint=f"As its owner: GRANT CREATE ON DATABASE {database} TO {quoted};",
        )
    if not fdw_available:
        raise ExtensionMissing
    if not is_superuser and not (has_fdw and may_use_fdw):
        raise MissingPrivilege(
            f"Role {role} may not use postgres_fdw in database {conn.info.dbname}.",
            hint=(
                "As a superuser: CREATE EXTENSION postgres_fdw; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw "
                f"TO {quoted};"
            ),
        )
    return str(role)


def _apply_password(conn: pg.Connection, role: str, password: str) -> None:
    """The verifier that the gateway checks and the user mapping that postgres_fdw answers with hold the same
    password."""
    if conn.execute(_QUERIES["mapping_has_password"], [SERVER, role, f"password={password}"]).fetchone():
        return
    alter = sql.SQL("alter user mapping for {} server {} options (set user {}, set password {})")
    conn.execute(alter.format(sql.Identifier(role), sql.Identifier(SERVER), sql.Literal(role), sql.Literal(password)))
    verifier = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    conn.execute(_QUERIES["put_login"], [role, verifier])
