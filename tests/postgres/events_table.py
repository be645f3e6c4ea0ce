"""A table of events with two monthly partitions."""

from __future__ import annotations

EVENTS = (
    (
        "create table public.events (id bigint not null, ts timestamptz not null, v integer, primary key (id, "
        "ts)) partition by range (ts)"
    ),
    "create table public.e1 partition of public.events for values from ('2026-01-01') to ('2026-02-01')",
    "create table public.e2 partition of public.events for values from ('2026-02-01') to ('2026-03-01')",
)
