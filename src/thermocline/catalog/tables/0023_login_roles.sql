-- A login at the gateway has the rights of one role, whatever that role is called later.
alter table thermocline.gateway_logins add column role_oid oid;
update thermocline.gateway_logins l set role_oid = r.oid from pg_catalog.pg_roles r where r.rolname = l.name;
comment on column thermocline.gateway_logins.role_oid is
    'The role whose rights the login has. Where it is null, and in a database restored from a dump, where roles have '
    'other numbers: the role of its name.';
