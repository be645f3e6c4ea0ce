-- Of a seam that somebody dropped since it was noted: takes those rights out of the note that their holders do not have
-- on the heap now, and tells which. Whether they were revoked before the seam was dropped is not known any more.
create or replace function thermocline.forget_seam_grants(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    kept jsonb;
    lost text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    if t.seam_extras is null then return; end if;
    select coalesce(jsonb_agg(jsonb_set(r.g, '{is_grantable}', to_jsonb(r.may_grant)) order by r.place)
                        filter (where r.is_held), '[]'),
           string_agg(format('%s%s of %s', r.g ->> 'privilege',
                             case when r.name is null then '' else format(' (%I)', r.name) end, r.holder), ', '
                      order by r.holder, r.g ->> 'privilege', r.name) filter (where not r.is_held)
      into kept, lost
      from (select n.g, n.place, n.holder, a.attname as name,
                   case when n.g ->> 'attnum' is null
                        then coalesce(has_table_privilege(n.holder, t.heap_oid, n.g ->> 'privilege'), false)
                        else coalesce(has_column_privilege(n.holder, t.heap_oid, (n.g ->> 'attnum')::smallint,
                                                           n.g ->> 'privilege'), false) end as is_held,
                   (n.g ->> 'is_grantable')::boolean and case when n.g ->> 'attnum' is null
                        then coalesce(has_table_privilege(n.holder, t.heap_oid,
                                                          (n.g ->> 'privilege') || ' WITH GRANT OPTION'), false)
                        else coalesce(has_column_privilege(n.holder, t.heap_oid, (n.g ->> 'attnum')::smallint,
                                                           (n.g ->> 'privilege') || ' WITH GRANT OPTION'), false)
                        end as may_grant
              from (select e.g, e.place, coalesce(e.g ->> 'grantee', 'public') as holder
                      from jsonb_array_elements(t.seam_extras -> 'grants') with ordinality e(g, place)
                     -- A role that is gone has nothing, and cannot be asked about.
                     where e.g ->> 'grantee' is null
                        or exists (select from pg_roles o where o.rolname = e.g ->> 'grantee')) n
              left join pg_attribute a on a.attrelid = t.heap_oid and a.attnum = (n.g ->> 'attnum')::smallint
             where n.g ->> 'attnum' is null or not a.attisdropped) r;
    update thermocline.tables set seam_extras = jsonb_set(t.seam_extras, '{grants}', kept) where id = of_table;
    if lost is not null then
        insert into thermocline.events (table_id, action, sentence)
        values (of_table, 'schema', format('%I.%I: its seam was dropped, and is made again without rights that their'
                                           ' holders do not have on the table: %s. Grant them again where they are'
                                           ' meant.', t.schema_name, t.table_name, lost));
    end if;
end $$;
revoke all on function thermocline.forget_seam_grants(bigint) from public;
