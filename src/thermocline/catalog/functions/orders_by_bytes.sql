-- Whether a collation orders text by its bytes, as the lake does; core/types.py and seam/heap/facts.py say the same.
create or replace function thermocline.orders_by_bytes(collation_oid oid) returns boolean
    language sql stable set search_path = pg_catalog as $$
    select case when collation_oid = 0 then true
                when c.collname <> 'default'
                then c.collname in ('C', 'POSIX', 'ucs_basic', 'C.utf8', 'C.UTF-8', 'pg_c_utf8')
                else (select case coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
                             when 'b' then coalesce(to_jsonb(d) ->> 'datlocale', '')
                                           in ('C', 'POSIX', 'C.UTF-8', 'C.utf8', 'C.UTF8')
                             when 'i' then false
                             else d.datcollate in ('C', 'POSIX', 'C.UTF-8', 'C.utf8', 'C.UTF8') end
                        from pg_database d where d.datname = current_database()) end
      from (select 1) one left join pg_collation c on c.oid = collation_oid $$;
