"""What a cycle says that finds, under way, that its table was stopped or its reclaim lag changed."""

from __future__ import annotations

from thermocline.core.names import TableName


def render_stopped(table: TableName) -> str:
    return f"{table} was stopped while this cycle ran: nothing more leaves the heap or the lake by itself"


def render_reclaim_lag_changed(table: TableName) -> str:
    return f"the reclaim lag of {table} was changed while this cycle ran: the next cycle decides what is dropped"
