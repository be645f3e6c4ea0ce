"""Rights: who may register, what a reader and a writer need, and that nobody needs a superuser."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.errors import MissingPrivilege
from thermocline.gateway.server import start_in_thread
from thermocline.runtime.pg import connect_as_typed as connect


def grant_all_that_register_needs(dsn: str, role: str) -> None:
    """What a superuser does once for a role that shall run Thermocline without being one."""
    with closing(connect(dsn, autocommit=True)) as conn:
        conn.execute("create extension if not exists postgres_fdw")
        name = sql.Identifier(role)
        conn.execute(sql.SQL("grant create on database {} to {}").format(sql.Identifier(conn.info.dbname), name))
        conn.execute(sql.SQL("grant usage on foreign data wrapper postgres_fdw to {}").format(name))
        conn.execute(sql.SQL("grant create, usage on schema public to {}").format(name))


@pytest.mark.conforms("O-115", "O-120")
def test_an_owner_who_is_no_superuser_registers_and_a_reader_needs_select_on_the_seam_alone(
    shop: Shop, bare_database: str, make_role: Callable[[], str]
) -> None:
    owner, reader, stranger = make_role(), make_role(), make_role()
    grant_all_that_register_needs(bare_database, owner)
    as_owner, as_reader, as_stranger = (
        make_conninfo(bare_database, user=role, password="secret") for role in (owner, reader, stranger)
    )
    gateway = start_in_thread(as_owner)
    try:
        conn = shop.session(as_owner)
        for statement in EVENTS:
            conn.execute(statement.encode())
        conn.execute("insert into public.events values (1, '2026-01-05', 7)")
        settings = shop.settings.model_copy(update={"gateway_listen": f"127.0.0.1:{gateway.port}"})
        Shop(dsn=as_owner, settings=settings, conn=conn).register()
        conn.execute(sql.SQL("grant select on public_all.events to {}").format(sql.Identifier(reader)))
        reading = shop.session(as_reader)
        assert reading.execute("select id, v from public_all.events").fetchall() == [(1, 7)]
        conn.execute("insert into public_all.events values (2, '1999-01-05', 8)")
        assert reading.execute("select id, v from public_all.events order by id").fetchall() == [(1, 7), (2, 8)]
        for forbidden in (
            "table thermocline_delta.public__events",
            "table thermocline_lake.public__events",
            "table thermocline.gateway_logins",
            "table public.events",
            "insert into public_all.events values (3, '2026-01-05', 7)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reading.execute(forbidden.encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shop.session(as_stranger).execute("table public_all.events")
    finally:
        gateway.stop()


@pytest.mark.conforms("C-036", "C-037", "O-117")
def test_grants_of_the_heap_are_the_seams_column_grants_and_grant_options_included(
    shop: Shop, make_role: Callable[[], str]
) -> None:
    one, other = make_role(), make_role()
    shop.run(
        *EVENTS,
        f"grant select, insert on public.events to {one} with grant option",
        f"grant select (id, ts), update (v) on public.events to {other}",
        "grant delete on public.events to public",
    )
    shop.register()
    granted = (
        "select grantee, privilege_type, is_grantable, null from information_schema.table_privileges"
        " where table_schema = '{0}' and table_name = 'events' and grantee <> 'postgres' union all"
        " select a.grantee::regrole::text, a.privilege_type, a.is_grantable::text, t.attname from "
        "pg_attribute t, aclexplode(t.attacl) a"
        " where t.attrelid = '{0}.events'::regclass order by 1, 2, 4"
    )
    assert shop.rows(granted.format("public_all")) == shop.rows(granted.format("public"))
    assert len(shop.rows(granted.format("public_all"))) == 6
    reading = shop.session(shop.as_role(other))
    assert reading.execute("select id, ts from public_all.events").fetchall() == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reading.execute("select v from public_all.events")


def test_the_login_and_the_rights_of_an_owner_go_with_its_last_table(shop: Shop, make_role: Callable[[], str]) -> None:
    owner = make_role()
    shop.run(*EVENTS, f"alter table public.events owner to {owner}")
    shop.register()
    held = (
        f"select (select count(*) from pg_user_mappings where usename = '{owner}'),"
        f" has_schema_privilege('{owner}', 'thermocline_delta', 'USAGE'),"
        f" has_table_privilege('{owner}', 'thermocline.cutline', 'SELECT'),"
        f" (select count(*) from thermocline.gateway_logins where name = '{owner}')"
    )
    assert shop.rows(held) == [(1, True, True, 1)]
    shop.unregister()
    assert shop.rows(held) == [(0, False, False, 0)]


def test_a_role_without_the_rights_is_refused_and_told_which(
    shop: Shop, bare_database: str, make_role: Callable[[], str]
) -> None:
    role = make_role()
    shop.run(*EVENTS)
    before = shop.traces()
    with pytest.raises(MissingPrivilege, match=f"Role {role} may not create schemas") as refused:
        shop.register(dsn=shop.as_role(role))
    assert (refused.value.code, refused.value.exit_code) == ("TC207", 3)
    assert "GRANT CREATE ON DATABASE" in refused.value.hint
    shop.run(f"grant create on database {shop.conn.info.dbname} to {role}")
    with pytest.raises(MissingPrivilege, match=f"Role {role} may not use postgres_fdw"):
        shop.register(dsn=shop.as_role(role))
    shop.run(f"grant usage on foreign data wrapper postgres_fdw to {role}")
    with pytest.raises(
        MissingPrivilege,
        match=f"The catalog in this database belongs to role postgres, and role {role} may not write it",
    ):
        shop.register(dsn=shop.as_role(role))
    assert shop.traces() == before
    grant_all_that_register_needs(bare_database, role)
    bare = shop.session(bare_database)
    for statement in EVENTS:
        bare.execute(statement.encode())
    with pytest.raises(MissingPrivilege, match=f"Role {role} does not own public.events") as refused:
        shop.register(dsn=make_conninfo(bare_database, user=role, password="secret"))
    assert "Run as postgres" in refused.value.hint
    assert bare.execute("select count(*) from pg_namespace where nspname like 'thermocline%'").fetchone() == (0,)
