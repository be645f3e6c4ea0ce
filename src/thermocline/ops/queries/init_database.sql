-- name: privileges
select current_user,
       (select rolsuper from pg_roles where rolname = current_user),
       has_database_privilege(current_database(), 'CREATE'),
       exists (select from pg_extension where extname = 'postgres_fdw'),
       exists (select from pg_available_extensions where name = 'postgres_fdw'),
       coalesce((select has_foreign_data_wrapper_privilege(oid, 'USAGE') from pg_foreign_data_wrapper
           where fdwname = 'postgres_fdw'), false)

-- name: mapping_has_password
select from pg_user_mappings where srvname = %s and usename = %s and %s = any (umoptions)

-- name: mapped_roles
select usename::text from pg_user_mappings where srvname = %s and usename <> 'public' order by usename

-- name: put_login
insert into thermocline.gateway_logins (name, verifier) values (%s, %s)
    on conflict (name) do update set verifier = excluded.verifier
