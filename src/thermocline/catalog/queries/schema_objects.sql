-- name: record_object
insert into thermocline.schema_objects (kind, name, sha256) values (%(kind)s, %(name)s, %(sha256)s)
on conflict (kind, name) do update set sha256 = excluded.sha256, applied_at = now()

-- name: record_existing_objects
insert into thermocline.schema_objects (kind, name, sha256)
select distinct 'functions', p.proname, '' from pg_proc p where p.pronamespace = 'thermocline'::regnamespace
union all
select 'views', c.relname, '' from pg_class c where c.relnamespace = 'thermocline'::regnamespace and c.relkind = 'v'
union all
select 'triggers', c.relname || '.' || g.tgname, '' from pg_trigger g join pg_class c on c.oid = g.tgrelid
 where c.relnamespace = 'thermocline'::regnamespace and not g.tgisinternal
union all
select 'triggers', e.evtname, '' from pg_event_trigger e join pg_proc p on p.oid = e.evtfoid
 where p.pronamespace = 'thermocline'::regnamespace

-- name: view_exists
select exists (select from pg_class c
                where c.relnamespace = 'thermocline'::regnamespace and c.relname = %(name)s and c.relkind = 'v')

-- name: overloads
select p.oid::regprocedure::text as signature, p.ctid::text as ctid
  from pg_proc p where p.pronamespace = 'thermocline'::regnamespace and p.proname = %(name)s

-- name: dependents
-- An object by kind and name and all that depends on it. Kind and name are null for what is not ours to create again.
with recursive dependent(classid, objid) as (
    select s.classid, s.objid from (
        select 'pg_proc'::regclass::oid as classid, p.oid as objid from pg_proc p
         where %(kind)s = 'functions' and p.pronamespace = 'thermocline'::regnamespace and p.proname = %(name)s
        union all
        select 'pg_class'::regclass, c.oid from pg_class c
         where %(kind)s = 'views' and c.relnamespace = 'thermocline'::regnamespace and c.relname = %(name)s
           and c.relkind = 'v'
        union all
        select 'pg_trigger'::regclass, g.oid from pg_trigger g join pg_class c on c.oid = g.tgrelid
         where %(kind)s = 'triggers' and c.relnamespace = 'thermocline'::regnamespace and not g.tgisinternal
           and c.relname || '.' || g.tgname = %(name)s
        union all
        select 'pg_event_trigger'::regclass, e.oid from pg_event_trigger e
         where %(kind)s = 'triggers' and e.evtname = %(name)s) s
    union
    select next.classid, next.objid from dependent d cross join lateral (
        select x.classid, x.objid from pg_depend x where (x.refclassid, x.refobjid) = (d.classid, d.objid)
        union all
        select 'pg_class'::regclass, r.ev_class from pg_rewrite r
         where d.classid = 'pg_rewrite'::regclass and r.oid = d.objid) next),
ours as (
    select d.classid, d.objid, o.kind, o.name, o.drop_as
      from dependent d cross join lateral (
        select 'functions' as kind, p.proname::text as name, format('function %%s', p.oid::regprocedure) as drop_as
          from pg_proc p
         where d.classid = 'pg_proc'::regclass and p.oid = d.objid and p.pronamespace = 'thermocline'::regnamespace
        union all
        select 'views', c.relname, format('view thermocline.%%I', c.relname) from pg_class c
         where d.classid = 'pg_class'::regclass and c.oid = d.objid and c.relkind = 'v'
           and c.relnamespace = 'thermocline'::regnamespace
        union all
        select 'triggers', c.relname || '.' || g.tgname, format('trigger %%I on thermocline.%%I', g.tgname, c.relname)
          from pg_trigger g join pg_class c on c.oid = g.tgrelid
         where d.classid = 'pg_trigger'::regclass and g.oid = d.objid and c.relnamespace = 'thermocline'::regnamespace
        union all
        select 'triggers', e.evtname, format('event trigger %%I', e.evtname) from pg_event_trigger e
         where d.classid = 'pg_event_trigger'::regclass and e.oid = d.objid) o)
select o.kind, o.name, o.drop_as, pg_describe_object(d.classid, d.objid, 0) as description
  from dependent d left join ours o on (o.classid, o.objid) = (d.classid, d.objid)
 where d.classid <> 'pg_rewrite'::regclass
   and not (d.classid = 'pg_type'::regclass
            and exists (select from pg_type y left join pg_type element on element.oid = y.typelem
                          join pg_class c on c.oid = coalesce(nullif(y.typrelid, 0), element.typrelid)
                         where y.oid = d.objid and c.relkind = 'v'))
