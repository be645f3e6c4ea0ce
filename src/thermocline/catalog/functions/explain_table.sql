create or replace function thermocline.explain_table(detail thermocline.spanning_detail, plan jsonb, seam boolean,
                                                     verb text, keys bigint[])
    returns jsonb language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    operation text := verb;
    heaps text[] := '{}';
    lakes text[] := '{}';
    has_spill boolean := false;
    has_delta boolean := false;
    may_be_hot boolean := false;
    may_be_cold boolean := false;
    ends record;
    part record;
    deciding text;
    high_condition text;
    rows jsonb;
    refusal text;
    warnings text[] := '{}';
begin
    for part in select * from thermocline.plan_parts(plan) p where p.id = detail.id and p.is_through_seam = seam loop
        ends := thermocline.key_ends(part.conditions, detail.tier_key, detail.key_type);
        case part.part
            when 'write' then operation := part.operation;
            when 'lake' then
                lakes := lakes || part.remote_sql;
            when 'delta' then
                has_delta := true;
                may_be_cold := may_be_cold or ends.low is null or ends.low < detail.t;
                high_condition := coalesce(high_condition, ends.high_condition);
            else
                if part.part = 'spill' then has_spill := true; else heaps := heaps || part.relation; end if;
                may_be_hot := may_be_hot or ends.high is null or ends.high >= detail.t;
                high_condition := coalesce(high_condition, ends.high_condition);
                deciding := coalesce(deciding, ends.low_condition);
        end case;
    end loop;
    if operation = 'insert' then
        may_be_hot := keys is null or exists (select from unnest(keys) k where k is null or k >= detail.t);
        may_be_cold := keys is null or exists (select from unnest(keys) k where k is null or k < detail.t);
        deciding := case when keys is not null then 'the literal rows' end;
        if keys is not null then
            select jsonb_build_object(
                       'recent', count(*) filter (where k >= detail.t),
                       'historical', count(*) filter (where k < detail.t and k >= coalesce(detail.r, k)),
                       'expired', count(*) filter (where k < detail.r),
                       'unknown', count(*) filter (where k is null)) into rows from unnest(keys) k;
            if (rows ->> 'expired')::bigint > 0 then
                refusal := format('%s rows lie below the retention line %s of %s:'
                                  ' rows this old were expired on purpose', rows ->> 'expired',
                                  thermocline.key_text(detail.key_type, detail.r), detail.heap);
            end if;
        end if;
        if seam and plan @? '$.**."Conflict Resolution"' then
            refusal := format('ON CONFLICT does not work on the seam: use the heap''s own name %s,'
                              ' thermocline.upsert() or thermocline.insert_if_absent()', detail.heap);
        end if;
    elsif not seam then
        may_be_hot := true;
        may_be_cold := detail.heap_is_complete;
        if not detail.heap_is_complete then
            warnings := warnings || format('%s names the heap alone: rows below T that only the lake holds are'
                                           ' neither read nor changed; %s spans both tiers', detail.heap, detail.seam);
        end if;
    end if;
    if not may_be_hot then deciding := coalesce(high_condition, deciding); end if;
    if seam and plan @? '$.** ? (@."Node Type" == "LockRows")' then
        warnings := warnings || format('FOR UPDATE and FOR SHARE take no row locks on the seam; use'
                                       ' thermocline.lock_rows() or lock rows of %s',
                                       detail.heap);
    end if;
    return jsonb_build_object(
        'table', detail.heap::text, 'named', case when seam then 'seam' else 'heap' end, 'seam', detail.seam::text,
        'mode', detail.mode,
        'operation', operation, 'tier_key', detail.tier_key,
        'verdict', case when not seam and operation <> 'insert' then 'heap alone'
                        when may_be_hot and may_be_cold then 'may touch both'
                        when may_be_hot then 'provably hot' when may_be_cold then 'provably cold' else 'no row' end,
        'deciding', case when may_be_hot <> may_be_cold then deciding end,
        't', thermocline.key_text(detail.key_type, detail.t), 's', detail.s,
        'r', thermocline.key_text(detail.key_type, detail.r),
        'seam_line', thermocline.key_text(detail.key_type, detail.seam_line),
        'heap', to_jsonb(heaps), 'spill', has_spill, 'lake', to_jsonb(lakes), 'delta', has_delta,
        'paths', thermocline.explain_paths(operation, detail.mode, may_be_hot, may_be_cold),
        'rows', rows, 'refusal', refusal, 'warnings', to_jsonb(warnings));
end $$;
