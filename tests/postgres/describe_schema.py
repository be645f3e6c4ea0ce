"""Describe our schemas from Postgres' own catalogs, so that two databases can be compared."""

from __future__ import annotations

import gzip
from pathlib import Path

from thermocline.runtime.pg import Connection

VERSION_13 = Path(__file__).parents[1] / "releases" / "0.1.0" / "catalog.sql.gz"
"""Everything that the thirteen migrations of release 0.1.0 ran, and the rows that recorded them."""

_DESCRIPTION = b"""
with ours as (select n.oid, n.nspname from pg_namespace n where n.nspname like 'thermocline%'),
acls(classid, objid, subid, kind, name, acl, owner) as (
    select 'pg_namespace'::regclass::oid, n.oid, 0, 'schema', n.nspname::text,
           coalesce(n.nspacl, acldefault('n', n.nspowner)), n.nspowner
      from pg_namespace n join ours o on o.oid = n.oid
    union all
    select 'pg_class'::regclass, c.oid, 0, 'relation', c.oid::regclass::text,
           coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner)), c.relowner
      from pg_class c join ours o on o.oid = c.relnamespace where c.relkind in ('r', 'v', 'S', 'f', 'p')
    union all
    select 'pg_proc'::regclass, p.oid, 0, 'function', p.oid::regprocedure::text,
           coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner from pg_proc p
               join ours o on o.oid = p.pronamespace
    union all
    select 'pg_type'::regclass, y.oid, 0, 'type', y.oid::regtype::text, coalesce(y.typacl, acldefault('T', y.typowner)),
           y.typowner from pg_type y join ours o on o.oid = y.typnamespace where y.typtype in ('d', 'e')
)
select 'owner of ' || a.kind, a.name, a.owner::regrole::text from acls a
union all
select 'privilege on ' || a.kind, a.name, format('%s to %s by %s%s', x.privilege_type,
       case x.grantee when 0 then 'public' else x.grantee::regrole::text end, x.grantor::regrole, x.is_grantable)
  from acls a cross join lateral aclexplode(a.acl) x
union all
select 'comment on ' || a.kind, a.name, obj_description(a.objid, a.classid::regclass::name) from acls a
union all
select 'relation', c.oid::regclass::text, concat_ws(' ', c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity)
  from pg_class c join ours o on o.oid = c.relnamespace where c.relkind in ('r', 'v', 'S', 'f', 'p')
union all
select 'column', format('%s.%s', c.oid::regclass, a.attname),
       concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod), a.attcollation, a.attnotnull, a.attidentity,
                 a.attgenerated, pg_get_expr(d.adbin, d.adrelid), a.attacl, col_description(c.oid, a.attnum))
  from pg_class c join ours o on o.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
 where c.relkind in ('r', 'v', 'f', 'p') and a.attnum > 0 and not a.attisdropped
union all
select 'constraint', format('%s.%s', c.conrelid::regclass, c.conname),
    concat(pg_get_constraintdef(c.oid), c.convalidated)
  from pg_constraint c join ours o on o.oid = c.connamespace where c.contype <> 'n'
union all
select 'index', format('%s.%s', i.schemaname, i.indexname), i.indexdef from pg_indexes i
  join ours o on o.nspname = i.schemaname
union all
select 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid) from pg_proc p
  join ours o on o.oid = p.pronamespace where p.prokind in ('f', 'p')
union all
select 'view', c.oid::regclass::text, pg_get_viewdef(c.oid) from pg_class c
  join ours o on o.oid = c.relnamespace where c.relkind = 'v'
union all
select 'trigger', format('%s.%s', g.tgrelid::regclass, g.tgname), concat(pg_get_triggerdef(g.oid), g.tgenabled)
  from pg_trigger g join pg_class c on c.oid = g.tgrelid join ours o on o.oid = c.relnamespace where not g.tgisinternal
union all
select 'event trigger', e.evtname, concat_ws(' ', e.evtevent, e.evtfoid::regprocedure, e.evtenabled, e.evttags,
       e.evtowner::regrole) from pg_event_trigger e
union all
select 'domain', y.oid::regtype::text, concat_ws(' ', format_type(y.typbasetype, y.typtypmod), y.typnotnull,
    y.typdefault)
  from pg_type y join ours o on o.oid = y.typnamespace where y.typtype = 'd'
union all
select 'enum label', e.enumtypid::regtype::text, format('%s %s', e.enumsortorder, e.enumlabel)
  from pg_enum e join pg_type y on y.oid = e.enumtypid join ours o on o.oid = y.typnamespace
union all
select 'sequence', s.seqrelid::regclass::text, concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax,
       s.seqmin, s.seqcache, s.seqcycle) from pg_sequence s join pg_class c on c.oid = s.seqrelid
  join ours o on o.oid = c.relnamespace
"""

_ROWS = ("schema_version (version, name, sha256)", "schema_objects (kind, name, sha256)", "routes", "format_operations")


def describe_schema(conn: Connection) -> set[tuple[str, str, str | None]]:
    """Every relation, column, constraint, index, function, view, trigger, comment, owner and privilege of ours."""
    found: set[tuple[str, str, str | None]] = set()
    for kind, name, definition in conn.execute(_DESCRIPTION):
        found.add((kind, name, definition))
    return found


def is_bookkeeping(fact: tuple[str, str, str | None]) -> bool:
    """Whether a fact is of the tables that record what was applied; the migrator itself makes these."""
    return fact[1].startswith(("thermocline.schema_version", "thermocline.schema_objects"))


def read_catalog_rows(conn: Connection) -> set[tuple[str, str]]:
    """The rows that an install or an upgrade itself writes."""
    found: set[tuple[str, str]] = set()
    for table in _ROWS:
        name, _, columns = table.partition(" ")
        chosen = columns.strip("()") or "*"
        statement = f"select r::text from (select {chosen} from thermocline.{name}) r"
        found |= {(name, row[0]) for row in conn.execute(statement.encode())}
    return found


def make_version_13(conn: Connection) -> None:
    """The catalog of release 0.1.0, in an empty database."""
    conn.execute(gzip.decompress(VERSION_13.read_bytes()))
