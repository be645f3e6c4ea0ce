-- The delta belongs to the catalog's owner, and the heap's owner may read and write its rows, no more: what a trigger,
-- a rule, a constraint, an index or a statistics object on it calls would run as whoever folds. What an earlier owner
-- of the delta put on it goes.
create or replace function thermocline.apply_delta_owner(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    delta oid;
    owner regrole := (select n.nspowner from pg_namespace n where n.nspname = 'thermocline');
    heap_owner regrole;
    statement text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    heap_owner := (select h.relowner from pg_class h where h.oid = t.heap_oid);
    delta := to_regclass(format('thermocline_delta.%I', t.object_name));
    if delta is null or heap_owner is null then return; end if;
    if (select c.relowner from pg_class c where c.oid = delta) <> owner then
        execute format('alter table %s owner to %s', delta::regclass, owner);
    end if;
    foreach statement in array array(
        select format('drop trigger %I on %s', g.tgname, delta::regclass)
          from pg_trigger g where g.tgrelid = delta and not g.tgisinternal
        union all
        select format('drop rule %I on %s', r.rulename, delta::regclass) from pg_rewrite r where r.ev_class = delta
        union all
        select format('drop policy %I on %s', p.polname, delta::regclass) from pg_policy p where p.polrelid = delta
        union all
        select format('drop statistics %I.%I', n.nspname, s.stxname)
          from pg_statistic_ext s join pg_namespace n on n.oid = s.stxnamespace where s.stxrelid = delta
        union all
        select format('alter table %s no inherit %s', i.inhrelid::regclass, i.inhparent::regclass)
          from pg_inherits i where delta in (i.inhrelid, i.inhparent)
        union all
        -- Our own check is on _op and names nothing but what Postgres brings.
        select format('alter table %s drop constraint %I cascade', delta::regclass, c.conname)
          from pg_constraint c where c.conrelid = delta and c.contype not in ('p', 'n')
           and not (c.contype = 'c'
                    and c.conkey = array(select a.attnum from pg_attribute a
                                          where a.attrelid = delta and a.attname = '_op')
                    and not exists (select from pg_depend d where d.classid = 'pg_constraint'::regclass
                                       and d.objid = c.oid and d.refclassid <> 'pg_class'::regclass))
        union all
        select format('drop index %s', i.indexrelid::regclass) from pg_index i
         where i.indrelid = delta and not i.indisprimary
           and not exists (select from pg_constraint c where c.conindid = i.indexrelid)
        union all
        select format('alter table %s alter column %I drop default', delta::regclass, a.attname)
          from pg_attribute a where a.attrelid = delta and a.atthasdef and a.attgenerated = ''
        union all
        select format('alter table %s drop column %I cascade', delta::regclass, a.attname)
          from pg_attribute a where a.attrelid = delta and a.attnum > 0 and not a.attisdropped
           and a.attname not in ('_op', '_version', '_folded', '_old_key')
           and not exists (select from thermocline.columns c where c.table_id = of_table and c.name = a.attname)
        union all
        select format('alter table %s disable row level security, no force row level security', delta::regclass)
          from pg_class c where c.oid = delta and (c.relrowsecurity or c.relforcerowsecurity)
        union all
        select format('revoke all on %s from %s cascade', delta::regclass,
                      case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end)
          from (select x.grantee from pg_class c, aclexplode(c.relacl) x where c.oid = delta
                union
                select x.grantee from pg_attribute a, aclexplode(a.attacl) x where a.attrelid = delta) g
         where g.grantee <> (select c.relowner from pg_class c where c.oid = delta))
    loop
        execute statement;
    end loop;
    if heap_owner <> owner then
        execute format('grant select, insert, update, delete on %s to %s', delta::regclass, heap_owner);
    end if;
end $$;
revoke all on function thermocline.apply_delta_owner(bigint) from public;
