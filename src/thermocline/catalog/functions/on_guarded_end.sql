create or replace function thermocline.on_guarded_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    if current_setting('thermocline.following', true) = 'on' then return; end if;
    select format('%I.%I', t.schema_name, t.table_name) as heap, w.what, w.hint
      into refused
      from thermocline.tables_here t
      join pg_event_trigger_ddl_commands() c on c.classid = 'pg_class'::regclass
      join lateral (
          select 'row-level security cannot be applied to rows in the lake' as what,
                 'Unregister the table first, or grant on views of its seam instead.' as hint
           where c.objid = t.heap_oid and (select h.relrowsecurity from pg_class h where h.oid = t.heap_oid)
          union all
          select format('the foreign key %I would change rows of the heap and not of the lake', f.conname),
                 'Let it be ON DELETE/UPDATE NO ACTION or RESTRICT.'
            from pg_constraint f
           where not t.heap_is_complete and c.objid = t.heap_oid and f.conrelid = t.heap_oid and f.contype = 'f'
             and f.conparentid = 0
             and (f.confdeltype in ('c', 'n', 'd') or f.confupdtype in ('c', 'n', 'd'))
          union all
          select format('the foreign key %I of %s would hold partitions back from leaving the heap', f.conname,
                        f.conrelid::regclass),
                 'Reference another table, or check the reference by a trigger that reads the seam.'
            from pg_constraint f
           where t.drops_partitions and f.conrelid = c.objid and f.confrelid = t.heap_oid and f.contype = 'f'
             and f.conparentid = 0
          union all
          select format('only a plain table can be a partition of it, and %s is itself partitioned or foreign',
                        p.oid::regclass),
                 'Attach the tables that hold the rows, one by one.'
            from pg_inherits i join pg_class p on p.oid = i.inhrelid
           where i.inhparent = t.heap_oid and p.relkind <> 'r' and c.objid in (t.heap_oid, p.oid)
      ) w on true
     limit 1;
    if found then
        raise exception '% is registered with Thermocline: %', refused.heap, refused.what
            using errcode = 'feature_not_supported', hint = refused.hint;
    end if;
end $$;
revoke all on function thermocline.on_guarded_end() from public;
