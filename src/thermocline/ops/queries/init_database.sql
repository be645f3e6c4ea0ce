-- name: privileges
select has_database_privilege(current_database(), 'CREATE'),
       to_regclass('thermocline.schema_version') is not null,
       exists (select from pg_extension where extname = 'postgres_fdw'),
       exists (select from pg_available_extensions where name = 'postgres_fdw')

-- name: has_extension
select exists (select from pg_extension where extname = 'postgres_fdw')

-- name: server_options
select srvoptions from pg_foreign_server where srvname = %s

-- name: has_mapping
select exists (select from pg_user_mappings where srvname = %s and usename = current_user)

-- name: mapping_has_password
select exists (select from pg_user_mappings where srvname = %s and usename = current_user and %s = any (umoptions))

-- name: has_login
select exists (select from thermocline.gateway_logins where name = %s)

-- name: put_login
insert into thermocline.gateway_logins (name, verifier) values (%s, %s) on conflict (name) do update set verifier = excluded.verifier
