-- Runs a statement of ours that can fire code of the heap's owner (a domain's CHECK, for example) as that owner; how
-- many rows it touched. The function that changes the role is made here and gone at the end: the owner of one that
-- stayed could make it SECURITY INVOKER.
create or replace function thermocline.run_as_owner(of_table bigint, statement text) returns bigint
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    owner text := (select pg_get_userbyid(h.relowner) from pg_class h
                     join thermocline.tables t on t.heap_oid = h.oid where t.id = of_table);
    made text := format('thermocline_fn.as_owner_%s_%s', pg_backend_pid(), pg_current_xact_id());
    touched bigint;
begin
    if owner = current_user then
        execute statement;
        get diagnostics touched = row_count;
        return touched;
    end if;
    execute format('create function %s() returns bigint language plpgsql volatile security definer'
                   ' set search_path = pg_catalog, pg_temp as %L', made,
                   format('declare touched bigint; begin execute %L; get diagnostics touched = row_count;'
                          ' return touched; end', statement));
    execute format('alter function %s() owner to %I', made, owner);
    execute format('select %s()', made) into touched;
    execute format('drop function %s()', made);
    return touched;
end $$;
revoke all on function thermocline.run_as_owner(bigint, text) from public;
