"""The query that reads a session's state before a statement is run: role, search path, settings, transaction."""

from __future__ import annotations

import re
from collections.abc import Sequence

from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.query.source_tables import Role
from thermocline.gateway.sql.values import NotProvable, parse_array
from thermocline.gateway.whole_query.session_state import SessionState

_COLUMNS = {
    "role": "current_user::pg_catalog.text",
    "schemas": "pg_catalog.current_schemas(true)::pg_catalog.text",
    "xid": "pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text",
    "holds_locks": "case when pg_catalog.pg_current_xact_id_if_assigned() is not null then exists"
    " (select from pg_catalog.pg_locks l where l.pid operator(pg_catalog.=) pg_catalog.pg_backend_pid()"
    " and l.locktype operator(pg_catalog.=) 'relation'"
    " and l.mode operator(pg_catalog.<>) 'AccessShareLock' and l.mode operator(pg_catalog.<>) 'RowShareLock')"
    " else false end",
    "engine": "pg_catalog.current_setting('thermocline.engine', true)",
    "prepared_text": "(select p.statement from pg_catalog.pg_prepared_statements p"
    " where p.name operator(pg_catalog.=) $1)",
    "temporary_schema": "(select n.nspname::pg_catalog.text from pg_catalog.pg_namespace n"
    " where n.oid operator(pg_catalog.=) pg_catalog.pg_my_temp_schema())",
    "has_temporary_objects": "exists (select from pg_catalog.pg_depend d"
    " where d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass"
    " and d.refobjid operator(pg_catalog.=) pg_catalog.pg_my_temp_schema())",
} | {
    name: f"pg_catalog.current_setting('{name}')"
    for name in (
        "TimeZone",
        "DateStyle",
        "bytea_output",
        "extra_float_digits",
        "client_encoding",
        "server_encoding",
        "standard_conforming_strings",
        "transaction_isolation",
        "statement_timeout",
        "transform_null_equals",
        "array_nulls",
        "idle_session_timeout",
        "idle_in_transaction_session_timeout",
        "IntervalStyle",
        "transaction_read_only",
    )
}
# Every name is qualified: the session's search path must not decide which function is called.
PROBE = f"select {', '.join(_COLUMNS.values())}"
"""Reads the session's state; $1 is the name of the prepared statement that is to be run."""
_UNITS = {"": 0.001, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_UTC = frozenset(
    {
        "utc",
        "gmt",
        "etc/utc",
        "etc/gmt",
        "uct",
        "zulu",
        "universal",
        "etc/universal",
        "etc/uct",
        "etc/zulu",
        "greenwich",
        "gmt0",
    }
)


def parse_probe_row(row: Sequence[bytes | None]) -> SessionState:
    """The session's state, from the row of the probe."""
    found = {
        name: None if value is None else value.decode("utf-8", "replace")
        for name, value in zip(_COLUMNS, row, strict=True)
    }
    setting = {name: value or "" for name, value in found.items()}
    schemas = tuple(name for name in parse_array(setting["schemas"]) if name is not None)
    timeouts = [_seconds(setting[f"idle_{kind}_timeout"]) for kind in ("session", "in_transaction_session")]
    return SessionState(
        role=Role(name=setting["role"], path=schemas),
        utc=setting["TimeZone"].lower() in _UTC,
        date_style=setting["DateStyle"],
        bytea_output=setting["bytea_output"],
        extra_float_digits=int(setting["extra_float_digits"] or 0),
        client_encoding=setting["client_encoding"],
        standard_strings=setting["standard_conforming_strings"] == "on",
        isolation=setting["transaction_isolation"],
        has_written=found["xid"] is not None,
        engine=setting["engine"] or "auto",
        timeout_seconds=_seconds(setting["statement_timeout"]),
        server_encoding=setting["server_encoding"],
        nulls_are_equal=setting["transform_null_equals"] == "on",
        array_nulls=setting["array_nulls"] == "on",
        idle_seconds=min((seconds for seconds in timeouts if seconds), default=0.0),
        prepared_text=found["prepared_text"],
        time_zone=setting["TimeZone"],
        interval_style=setting["IntervalStyle"],
        is_read_only=setting["transaction_read_only"] == "on",
        temporary_schema=found["temporary_schema"],
        has_temporary_objects=setting["has_temporary_objects"] == "t",
        xid=found["xid"],
        holds_locks=setting["holds_locks"] == "t",
    )


def _seconds(setting: str) -> float:
    """A duration as Postgres shows it: `0`, `500ms`, `2min`."""
    found = re.fullmatch(r"(\d+)(ms|s|min|h|d|)", setting)
    return int(found[1]) * _UNITS[found[2]] if found else 0.0


def parse_constants(row: Sequence[bytes | None]) -> list[TypedValue]:
    """Constants that Postgres computed; text and type oid alternate in the row."""
    found: list[TypedValue] = []
    for at in range(0, len(row), 2):
        kind = row[at + 1]
        if kind is None:
            raise NotProvable("a constant without a type")
        value = row[at]
        found.append(TypedValue(None if value is None else value.decode(), int(kind)))
    return found
