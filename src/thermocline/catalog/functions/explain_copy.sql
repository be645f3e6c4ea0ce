create or replace function thermocline.explain_copy(verb text, target regclass) returns jsonb
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    detail thermocline.spanning_detail;
    is_seam boolean;
    reading jsonb;
    report jsonb;
begin
    select * into detail from thermocline.spanning_detail d where target in (d.heap, d.seam);
    if not found then return '[]'; end if;
    is_seam := target = detail.seam;
    reading := jsonb_build_array(jsonb_build_object('Plan', jsonb_build_object('Node Type', 'Seq Scan', 'Schema',
        (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = target),
        'Relation Name', (select c.relname from pg_class c where c.oid = target))));
    report := thermocline.explain_table(detail, reading, is_seam,
                                        case verb when 'copy from' then 'insert' else 'select' end, null);
    if verb = 'copy to' and is_seam then
        report := report || jsonb_build_object('verdict', 'refused', 'paths', '[]'::jsonb, 'heap', '[]'::jsonb,
            'refusal', format('Postgres copies no rows out of a view: use COPY (SELECT * FROM %s) TO', detail.seam));
    end if;
    return jsonb_build_array(report);
end $$;
