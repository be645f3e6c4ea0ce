-- name: privileges
select current_user::text as role,
       (select rolsuper from pg_roles where rolname = current_user) as is_superuser,
       has_database_privilege(current_database(), 'CREATE') as may_create,
       exists (select from pg_extension where extname = 'postgres_fdw') as has_fdw,
       exists (select from pg_available_extensions where name = 'postgres_fdw') as fdw_available,
       coalesce((select has_foreign_data_wrapper_privilege(oid, 'USAGE') from pg_foreign_data_wrapper
           where fdwname = 'postgres_fdw'), false) as may_use_fdw

-- name: mapping_has_password
select from pg_user_mappings where srvname = %s and usename = %s and %s = any (umoptions)

-- name: mapped_roles
select usename::text from pg_user_mappings where srvname = %s and usename <> 'public' order by usename

-- name: put_login
insert into thermocline.gateway_logins (name, verifier, role_oid)
    values (%(role)s, %(verifier)s, to_regrole(quote_ident(%(role)s)))
    on conflict (name) do update set verifier = excluded.verifier, role_oid = excluded.role_oid
