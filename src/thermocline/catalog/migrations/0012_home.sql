-- Where the lake's catalog lives. A copy of the database (a restored dump, a database made from this one as template) names the same files;
-- whatever it rewrote, expired or swept would be the original's loss, so it moves nothing until somebody says that it is the original now.

create table thermocline.home (
    only_one boolean primary key default true check (only_one),
    system_identifier bigint,
    database_oid oid not null,
    since timestamptz not null default now()
);
comment on table thermocline.home is 'The cluster and the database whose registrations these are, noted with the first of them.';

-- This cluster's own number; null where the role may not ask.
create function thermocline.system_identifier() returns bigint
    language plpgsql stable set search_path = pg_catalog as $$
begin
    return (select s.system_identifier from pg_control_system() s);
exception when insufficient_privilege then
    return null;
end $$;

create function thermocline.note_home() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    insert into thermocline.home (system_identifier, database_oid)
    select thermocline.system_identifier(), d.oid from pg_database d where d.datname = current_database()
    on conflict do nothing;
    return null;
end $$;
create trigger note_home after insert on thermocline.tables for each statement execute function thermocline.note_home();
create trigger note_home after insert on thermocline.lake_tables for each statement execute function thermocline.note_home();

-- Whether the registrations were made here, as far as anybody can tell.
create function thermocline.is_home() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select coalesce(bool_and(h.database_oid = d.oid and coalesce(h.system_identifier = thermocline.system_identifier(), true)), true)
      from thermocline.home h, pg_database d where d.datname = current_database() $$;

-- This database is the original from now on.
create function thermocline.claim_home() returns void
    language sql volatile set search_path = pg_catalog as $$
    update thermocline.home h set system_identifier = thermocline.system_identifier(), database_oid = d.oid, since = now()
      from pg_database d where d.datname = current_database() $$;
revoke all on function thermocline.note_home(), thermocline.claim_home() from public;
