-- The system identifier of this cluster; null where the role may not read it.
create or replace function thermocline.system_identifier() returns bigint
    language plpgsql stable set search_path = pg_catalog as $$
begin
    return (select s.system_identifier from pg_control_system() s);
exception when insufficient_privilege then
    return null;
end $$;
