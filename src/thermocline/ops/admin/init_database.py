"""Prepares a database: catalog, postgres_fdw, the way to the gateway, and a gateway login for the connecting role.

Everything is looked at first and changed only where it differs, so it may be repeated at any time and from several
shells at once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from psycopg import sql
from psycopg.rows import scalar_row

from thermocline.catalog.database_identity import UnboundTable, apply_claim, is_original
from thermocline.catalog.migrate import apply_migrations
from thermocline.catalog.profiles import record_default_warehouse
from thermocline.errors import ExtensionMissing, MissingPrivilege
from thermocline.ops.admin.places import WantedPlaces, decide_places, render_warehouse
from thermocline.runtime import pg
from thermocline.runtime.settings import split_addresses
from thermocline.seam.foreign_server import GatewayTls, apply_gateway_server, apply_tls, point_server_at
from thermocline.seam.objects import SERVER

_LOCK_KEY = 7_461_001_914
_QUERIES = pg.load_queries("thermocline.ops", "queries/init_database.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLogin:
    """What the connecting role and Postgres need to log in at the gateway.

    Without a password the login is kept as it is, and made where there is none. Without `tls` the server's own options
    are kept.
    """

    password: str | None = field(default=None, repr=False)
    tls: GatewayTls | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """The catalog's version, the role that has a gateway login now, and where gateway and lake are."""

    catalog_version: int
    gateway_login: str
    gateway: str
    warehouse: str
    unbound: tuple[UnboundTable, ...] = ()


def init_database(
    dsn: str,
    wanted: WantedPlaces,
    *,
    login: GatewayLogin | None = None,
    take_over: bool = False,
    claim: bool = False,
    connect_timeout_seconds: int = 5,
) -> InitReport:
    """Create or upgrade the catalog, record where lake and gateway are, and lead Postgres to the gateway.

    With `claim` the lake belongs to this database from now on, and the one that it was copied from must be gone. Object
    numbers of a restored dump are bound anew by name; the tables that are not found stay unbound. A copy that is
    claimed takes over what `wanted` says: its gateway is not the one of the database that it was copied from.
    """
    with pg.connect(dsn, connect_timeout_seconds=connect_timeout_seconds, application_name="thermocline init") as conn:
        pg.check_version(conn)
        role = check_privileges(conn)
        version = apply_migrations(conn)
        conn.commit()
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        claims_copy = claim and not is_original(conn)
        places = decide_places(conn, wanted, take_over=take_over or claims_copy)
        assert places.gateway is not None
        assert places.warehouse is not None
        unbound = apply_claim(conn) if claims_copy else ()
        record_default_warehouse(conn, places.warehouse)
        host, port = split_addresses(places.gateway)
        login = login or GatewayLogin()
        password = login.password or secrets.token_urlsafe(24)
        apply_gateway_server(conn, role, host=host, port=port, password=password)
        point_server_at(conn, host, port)
        if login.tls is not None:
            apply_tls(conn, login.tls)
        if login.password is not None:
            _apply_password(conn, role, login.password)
    return InitReport(
        catalog_version=version,
        gateway_login=role,
        gateway=places.gateway,
        warehouse=render_warehouse(places.warehouse),
        unbound=unbound,
    )


def rotate_logins(dsn: str, *, connect_timeout_seconds: int = 5) -> tuple[str, ...]:
    """A new password for every role's way to the gateway, all at once; the foreign server stays, and so do open
    connections."""
    with pg.connect(dsn, connect_timeout_seconds=connect_timeout_seconds, application_name="thermocline init") as conn:
        conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        roles = tuple(conn.cursor(row_factory=scalar_row).execute(_QUERIES["mapped_roles"], [SERVER]))
        for role in roles:
            _apply_password(conn, role, secrets.token_urlsafe(24))
    return roles


def check_privileges(conn: pg.Connection) -> str:
    """The role we are; refuses when it lacks what a catalog and a foreign server need."""
    found = pg.rows_by_name(conn).execute(_QUERIES["privileges"]).fetchone()
    assert found is not None
    role = str(found.role)
    quoted = sql.Identifier(role).as_string(conn)
    if not found.may_create:
        database = sql.Identifier(conn.info.dbname).as_string(conn)
        raise MissingPrivilege(
            f"Role {role} may not create schemas in database {conn.info.dbname}.",
            hint=f"As its owner: GRANT CREATE ON DATABASE {database} TO {quoted};",
        )
    if not found.fdw_available:
        raise ExtensionMissing
    if not found.is_superuser and not (found.has_fdw and found.may_use_fdw):
        raise MissingPrivilege(
            f"Role {role} may not use postgres_fdw in database {conn.info.dbname}.",
            hint=(
                "As a superuser: CREATE EXTENSION postgres_fdw; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw "
                f"TO {quoted};"
            ),
        )
    return role


def _apply_password(conn: pg.Connection, role: str, password: str) -> None:
    """The verifier that the gateway checks and the user mapping that postgres_fdw answers with hold the same
    password."""
    if conn.execute(_QUERIES["mapping_has_password"], [SERVER, role, f"password={password}"]).fetchone():
        return
    alter = sql.SQL("alter user mapping for {} server {} options (set user {}, set password {})")
    conn.execute(alter.format(sql.Identifier(role), sql.Identifier(SERVER), sql.Literal(role), sql.Literal(password)))
    verifier = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    conn.execute(_QUERIES["put_login"], {"role": role, "verifier": verifier})
