-- How far the work of a request is, as data: phase, done, total, unit, started_at, at. `progress` is its sentence.
alter table thermocline.requests add column measured jsonb;
alter table thermocline.maintenance_requests add column measured jsonb;
comment on column thermocline.requests.measured is
    'How far the phase under way is: phase, done, total, unit, started_at, at; null between phases.';
comment on column thermocline.maintenance_requests.measured is
    'How far the phase under way is: phase, done, total, unit, started_at, at; null between phases.';
