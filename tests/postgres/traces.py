"""Everything registration could leave in a database or a warehouse, as one value to compare."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from thermocline.runtime.pg import connect_as_typed as connect

_TRACES = b"""
select 'schema', nspname::text, coalesce(nspacl::text, '') from pg_namespace where nspname !~ '^pg_(toast_)?temp'
union all select 'relation', c.oid::regclass::text, concat_ws(' ', c.relkind, c.relacl::text, c.relispartition)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
union all select 'function', p.oid::regprocedure::text, p.proname from pg_proc p
    where p.pronamespace <> 'pg_catalog'::regnamespace
union all select 'trigger', tgrelid::regclass::text, tgname from pg_trigger where not tgisinternal
union all select 'server', srvname, coalesce(srvacl::text, '') || srvoptions::text from pg_foreign_server
union all select 'mapping', srvname, usename from pg_user_mappings
union all select 'type', t.oid::regtype::text, t.typname from pg_type t
    where t.typnamespace <> 'pg_catalog'::regnamespace
"""
_ROWS = b"""
select 'table', schema_name, table_name from thermocline.tables
union all select 'lake', table_namespace, table_name from thermocline_iceberg.iceberg_tables
union all select 'login', name, '' from thermocline.gateway_logins
union all select 'column', name, '' from thermocline.columns
union all select 'cutline', table_id::text, '' from thermocline.cutline
"""


def read_traces(dsn: str, warehouse: Path) -> set[tuple[str, ...]]:
    """Every schema, relation, function, trigger, server, mapping, catalog row and warehouse file."""
    with closing(connect(dsn, autocommit=True)) as conn:
        found = {tuple(map(str, row)) for row in conn.execute(_TRACES)}
        if conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,):
            found |= {tuple(map(str, row)) for row in conn.execute(_ROWS)}
    return found | {("file", str(path)) for path in warehouse.rglob("*") if path.is_file()}
