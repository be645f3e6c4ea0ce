"""The foreign server of the gateway and the login each owner uses for it.

The password exists in the owner's user mapping alone; the catalog keeps only its SCRAM verifier.
"""

from __future__ import annotations

from psycopg import sql

from thermocline.hot.seam import SERVER
from thermocline.pg import Connection

_LOCK_KEY = 7_461_001_915


def apply_gateway_server(conn: Connection, owner: str, *, host: str, port: int, password: str) -> None:
    """Make the server when it is missing, point it at this gateway, and give the owner a login. One session at a time."""
    conn.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
    conn.execute("create extension if not exists postgres_fdw")
    server = sql.Identifier(SERVER)
    if conn.execute("select 1 from pg_foreign_server where srvname = %s", [SERVER]).fetchone() is None:
        conn.execute(
            sql.SQL(
                "create server {} foreign data wrapper postgres_fdw options"
                " (host {}, port {}, dbname 'lake', fetch_size '10000', updatable 'false', truncatable 'false')"
            ).format(server, sql.Literal(host), sql.Literal(str(port)))
        )
    else:
        point_server_at(conn, host, port)
    conn.execute(sql.SQL("grant usage on foreign server {} to {}").format(server, sql.Identifier(owner)))
    has_mapping = conn.execute("select 1 from pg_user_mappings where srvname = %s and usename = %s", [SERVER, owner]).fetchone()
    has_login = conn.execute("select 1 from thermocline.gateway_logins where name = %s", [owner]).fetchone()
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
        "insert into thermocline.gateway_logins (name, verifier) values (%s, %s)"
        " on conflict (name) do update set verifier = excluded.verifier",
        [owner, verifier],
    )


def point_server_at(conn: Connection, host: str, port: int) -> None:
    """Change the gateway's address when it moved; the next connection uses it."""
    row = conn.execute("select srvoptions from pg_foreign_server where srvname = %s", [SERVER]).fetchone()
    if row is None or {f"host={host}", f"port={port}"} <= set(row[0] or ()):
        return
    conn.execute(
        sql.SQL("alter server {} options (set host {}, set port {})").format(
            sql.Identifier(SERVER), sql.Literal(host), sql.Literal(str(port))
        )
    )
