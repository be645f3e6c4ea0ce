"""Functions and operators in `public` with the names and arguments of Postgres' own: a call that reaches one is
counted, although its transaction fails.

The database's search_path has `public` first, as its owner may set it. So every name that a connection of ours does not
pin to pg_catalog, and does not qualify, leads to a shadow.
"""

from __future__ import annotations

from contextlib import closing

import psycopg

_MAKE = """
create sequence public.shadow_calls;
grant all on sequence public.shadow_calls to public;
create table public.shadows_made (name text);
do $plant$
declare
    f record;
    body text := $body$ begin
        perform pg_catalog.nextval('public.shadow_calls');
        raise exception 'a shadow was called';
    end $body$;
    kinds text[] := array['text', 'name', 'integer', 'bigint', 'oid', 'regclass'];
begin
    for f in select p.oid, p.proname, pg_get_function_arguments(p.oid) as arguments, p.proretset,
                    format_type(p.prorettype, null) as result, p.provolatile
               from pg_proc p join pg_type r on r.oid = p.prorettype
              where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.proallargtypes is null
                and (r.typtype <> 'p' or r.typname like 'any_%')
                and not exists (select from unnest(p.proargtypes) a join pg_type t on t.oid = a
                                 where t.typtype = 'p' and t.typname not like 'any_%')
    loop
        begin
            execute format('create function public.%I(%s) returns %s %s language plpgsql as %L', f.proname,
                           f.arguments, case when f.proretset then 'setof' else '' end, f.result, body);
            insert into public.shadows_made values (f.proname);
        exception when others then
            null; -- a signature that only Postgres itself may have
        end;
    end loop;
    -- Where Postgres' own takes "any", exact arguments fit better.
    for f in select n.name, a.arguments, n.result
               from (values ('format', 'text'), ('concat', 'text'), ('concat_ws', 'text'),
                            ('jsonb_build_object', 'jsonb')) n(name, result)
              cross join (select 'text' as arguments union all
                          select concat_ws(', ', 'text', x) from unnest(kinds) x union all
                          select concat_ws(', ', 'text', x, y) from unnest(kinds) x, unnest(kinds) y union all
                          select concat_ws(', ', 'text', x, y, z)
                            from unnest(kinds) x, unnest(kinds) y, unnest(kinds) z) a
    loop
        execute format('create or replace function public.%I(%s) returns %s language plpgsql as %L', f.name,
                       f.arguments, f.result, body);
    end loop;
    for f in select o.oprname, pg_get_function_identity_arguments(o.oprcode) as arguments, o.oprleft, o.oprright,
                    o.oprcode, c.proname
               from pg_operator o join pg_proc c on c.oid = o.oprcode
              where o.oprnamespace = 'pg_catalog'::regnamespace
    loop
        begin
            execute format('create operator public.%s (function = public.%I%s, rightarg = %s)', f.oprname, f.proname,
                           case when f.oprleft = 0 then '' else ', leftarg = ' || format_type(f.oprleft, null) end,
                           format_type(f.oprright, null));
        exception when others then
            null;
        end;
    end loop;
end $plant$;
"""


def plant_shadows(dsn: str) -> None:
    """Shadow what can be shadowed, and put `public` first for every later connection."""
    with closing(psycopg.connect(dsn, autocommit=True)) as conn:
        conn.execute(_MAKE.encode())
        row = conn.execute("select count(*) from public.shadows_made").fetchone()
        assert row is not None
        assert row[0] > 1500
        conn.execute(f"alter database {conn.info.dbname} set search_path = public, pg_catalog".encode())


def count_shadow_calls(dsn: str) -> int:
    with closing(psycopg.connect(dsn, autocommit=True)) as conn:
        conn.execute("set search_path = pg_catalog")
        row = conn.execute("select case when is_called then last_value else 0 end from public.shadow_calls").fetchone()
    assert row is not None
    return int(row[0])
