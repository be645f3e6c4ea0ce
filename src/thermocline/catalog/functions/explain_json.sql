create or replace function thermocline.explain_json(statement text, path text) returns jsonb
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    parsed record := thermocline.explainable(statement, path);
    plan jsonb;
    tables jsonb;
    refusal jsonb;
    code text;
    sentence text;
begin
    if parsed.verb in ('copy from', 'copy to') then
        return jsonb_build_object('statement', parsed.verb,
                                  'tables', thermocline.explain_copy(parsed.verb, parsed.target), 'refusal', null);
    end if;
    begin
        plan := thermocline.plan_of(parsed.query, path);
    exception
        when syntax_error then
            raise;
        when invalid_cursor_definition then
            raise exception 'TC702: only one statement can be explained at a time'
                using errcode = 'feature_not_supported';
        when others then
            get stacked diagnostics code = returned_sqlstate, sentence = message_text;
            refusal := jsonb_build_object('sqlstate', code, 'sentence', sentence);
            return jsonb_build_object('statement', parsed.verb, 'tables', '[]'::jsonb, 'refusal', refusal);
    end;
    select coalesce(jsonb_agg(thermocline.explain_table(
                                  d, plan, u.is_through_seam,
                                  case parsed.verb when 'with' then 'select' else parsed.verb end,
                                  thermocline.literal_keys(parsed.query, d, path)) order by d.heap::text), '[]')
      into tables
      from (select distinct p.id, p.is_through_seam from thermocline.plan_parts(plan) p) u
      join thermocline.spanning_detail d on d.id = u.id;
    return jsonb_build_object('statement', parsed.verb, 'tables', tables, 'refusal', null);
end $$;

-- The caller's search_path is read where it still is the caller's.
create or replace function thermocline.explain_json(statement text) returns jsonb language sql volatile
    return thermocline.explain_json(statement, current_setting('search_path'));
comment on function thermocline.explain_json(text) is 'What thermocline.explain() says, as one document.';
