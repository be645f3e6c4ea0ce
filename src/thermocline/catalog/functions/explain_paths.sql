create or replace function thermocline.explain_paths(operation text, mode text, may_be_hot boolean, may_be_cold boolean)
    returns jsonb
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(jsonb_agg(jsonb_build_object('operation', r.operation, 'side', r.side, 'path', r.path,
                                                 'sentence', r.sentence)
                              order by r.operation, r.side desc), '[]')
      from thermocline.routes r
     where r.mode = $2 and ((may_be_hot and r.side = 'recent') or (may_be_cold and r.side = 'historical'))
       and r.operation = any (case $1 when 'select' then array['read']
                              when 'merge' then array['insert', 'update', 'delete'] else array[$1] end) $$;
