-- Where the lakes of tables without a storage profile are made: it belongs to the database, not to the directory from
-- which a command is run.
create table thermocline.default_warehouse (
    only_one boolean primary key default true check (only_one),
    location text not null check (location like '%:/%'),
    since timestamptz not null default now()
);
comment on table thermocline.default_warehouse is
    'The warehouse of tables that are registered without a storage profile; none before `init`, `up` or the first '
    'registration. The address of the gateway is kept in the options of the foreign server.';

-- Earlier releases recorded it in the location of each lake alone. Where they differ, most tables are right.
insert into thermocline.default_warehouse (location)
select warehouse
  from (select id, regexp_replace(lake_location, '/[^/]+/[^/]+-[0-9a-f]{8}$', '') as warehouse
          from thermocline.tables
         where profile is null and lake_location ~ ':/.*/[^/]+/[^/]+-[0-9a-f]{8}$') lakes
 group by warehouse order by count(*) desc, max(id) desc limit 1;
