-- What explain needs to know of a table; as `thermocline.spanning`, only for tables the reader has some right on.
create or replace view thermocline.spanning_detail with (security_barrier) as
select p.id, p.heap, p.seam, p.tier_key, t.key_type, t.object_name, p.pk,
       t.mode, m.heap_is_complete,
       c.t, c.s, c.r, c.seam_line,
       (select k.oid from pg_class k join pg_namespace n on n.oid = k.relnamespace
         where n.nspname = t.spill_schema and k.relname = t.spill_name) as spill,
       array(select n.relid from thermocline.partitions n
              where n.table_id = t.id and n.hi <= c.t and n.state <> 'dropped') as below
  from thermocline.spanning p
  join thermocline.tables t on t.id = p.id
  join thermocline.modes m on m.name = t.mode
  join thermocline.cutline c on c.table_id = p.id;
grant select on thermocline.spanning_detail to public;
