"""What a session tells of itself before a statement is judged: role, search path, settings, transaction."""

from __future__ import annotations

import re
from collections.abc import Sequence

from thermocline.gateway.sql.expressions.constants import TypedValue
from thermocline.gateway.sql.query.source_tables import Role
from thermocline.gateway.sql.values import NotProvable, parse_array
from thermocline.gateway.whole_query.session_state import SessionState

# Every name is qualified: a session's own search path must not decide what its rights are.
PROBE = (
    "select current_user::pg_catalog.text, pg_catalog.current_schemas(true)::pg_catalog.text,"
    " pg_catalog.current_setting('TimeZone'), pg_catalog.current_setting('DateStyle'), "
    "pg_catalog.current_setting('bytea_output'),"
    " pg_catalog.current_setting('extra_float_digits'), pg_catalog.current_setting('client_encoding'),"
    " pg_catalog.current_setting('standard_conforming_strings'), pg_catalog.current_setting('transaction_isolation'),"
    " pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text,"
    " pg_catalog.current_setting('thermocline.engine', true), pg_catalog.current_setting('statement_timeout'),"
    " pg_catalog.current_setting('server_encoding'), pg_catalog.current_setting('transform_null_equals'),"
    " pg_catalog.current_setting('array_nulls'), pg_catalog.current_setting('idle_session_timeout'),"
    " pg_catalog.current_setting('idle_in_transaction_session_timeout'),"
    " (select p.statement from pg_catalog.pg_prepared_statements p where p.name operator(pg_catalog.=) $1)"
)
"""Its parameter is the name of the prepared statement that is to be run."""
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
    """The probe's answer."""
    values = [None if value is None else value.decode("utf-8", "replace") for value in row]
    said = [value or "" for value in values]
    schemas = tuple(name for name in parse_array(said[1]) if name is not None)
    return SessionState(
        role=Role(name=said[0], path=schemas),
        utc=said[2].lower() in _UTC,
        date_style=said[3],
        bytea_output=said[4],
        extra_float_digits=int(said[5] or 0),
        client_encoding=said[6],
        standard_strings=said[7] == "on",
        isolation=said[8],
        has_written=values[9] is not None,
        engine=said[10] or "auto",
        timeout_seconds=_seconds(said[11]),
        server_encoding=said[12],
        nulls_are_equal=said[13] == "on",
        array_nulls=said[14] == "on",
        idle_seconds=min((seconds for setting in said[15:17] if (seconds := _seconds(setting))), default=0.0),
        prepared_text=values[17],
    )


def _seconds(setting: str) -> float:
    """A duration as Postgres shows it: `0`, `500ms`, `2min`."""
    found = re.fullmatch(r"(\d+)(ms|s|min|h|d|)", setting)
    return int(found[1]) * _UNITS[found[2]] if found else 0.0


def given_of(row: Sequence[bytes | None]) -> list[TypedValue]:
    """Constants that Postgres computed: text and type in turn."""
    found: list[TypedValue] = []
    for at in range(0, len(row), 2):
        kind = row[at + 1]
        if kind is None:
            raise NotProvable("a constant without a type")
        value = row[at]
        found.append(TypedValue(None if value is None else value.decode(), int(kind)))
    return found
