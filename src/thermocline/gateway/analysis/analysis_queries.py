"""The statements of an analysis: the text becomes the body of a temporary function, which is printed and rolled back.

They run on the client's own connection, each as one message of the extended protocol: a simple query would let
`select 1; end; drop table …` out of the body. Docs: decision 0044.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import sql

from thermocline.core.types import COLUMN_TYPES_BY_OID
from thermocline.gateway.sql.values import NotProvable

MAX_PARAMETERS = 100
"""Postgres gives a function no more."""
LOCK_TIMEOUT_MS = 500
STATEMENT_TIMEOUT_MS = 5_000
_FUNCTION = f"thermocline_{secrets.token_hex(8)}"
"""Random, so that no function of the client's has the name."""
_PRINTING: Mapping[str, str] = {
    "search_path": "pg_catalog",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
}
"""The text is printed under the same settings for every session, so every name outside pg_catalog is qualified."""
_DEFINITIONS: LiteralString = """
select md5(coalesce(string_agg(concat_ws('|', c.oid, n.nspname, c.relname, c.relkind, found.oid, columns.listed), '/'
                               order by c.oid), ''))
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join lateral (
    select k.oid
    from pg_class k
    join pg_namespace s on s.oid = k.relnamespace
    where k.relname = c.relname and s.nspname = any({path}::text[])
    order by array_position({path}::text[], s.nspname::text)
    limit 1
) found on true
left join lateral (
    select string_agg(concat_ws(',', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation), ';'
                      order by a.attnum) as listed
    from pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
) columns on true
where c.oid = any({relations}::oid[])
"""
_ANALYSED: LiteralString = """
select pg_get_function_sqlbody(f.oid), named.relations::text,
       exists (select from pg_depend d
               where d.classid = 'pg_proc'::regclass and d.objid = f.oid
                 and d.refclassid <> all (array['pg_class', 'pg_namespace']::regclass[])),
       ({definitions}), pg_current_xact_id_if_assigned()::text
from pg_proc f
cross join lateral (
    select coalesce(array_agg(distinct d.refobjid), '{{}}') as relations
    from pg_depend d
    where d.classid = 'pg_proc'::regclass and d.objid = f.oid and d.refclassid = 'pg_class'::regclass
) named
where f.proname = {name} and f.pronamespace = pg_my_temp_schema()
"""


def render_limits(statement_timeout_seconds: float) -> str:
    """Limits of time; the session's own statement timeout where that is shorter. Notices are not for the client."""
    own_ms = round(statement_timeout_seconds * 1000)
    timeout_ms = min(own_ms, STATEMENT_TIMEOUT_MS) if own_ms else STATEMENT_TIMEOUT_MS
    return _render_settings(
        {
            "lock_timeout": f"{LOCK_TIMEOUT_MS}ms",
            "statement_timeout": f"{timeout_ms}ms",
            "client_min_messages": "error",
        }
    )


def render_function(text: str, parameter_oids: Sequence[int], schema: str) -> str:
    """The function whose body is the client's text; its parameters have no names, so that they shadow no column.

    `schema` is the session's temporary schema by its own name: named `pg_temp`, the client's transaction could not be
    prepared for a commit in two phases.
    """
    if len(parameter_oids) > MAX_PARAMETERS:
        raise NotProvable(f"a statement with more than {MAX_PARAMETERS} parameters is left to Postgres")
    types = ", ".join(_type_name(oid) for oid in parameter_oids)
    name = sql.Identifier(schema, _FUNCTION).as_string(None)
    return f"create function {name}({types}) returns setof record begin atomic {text}\n; end"


def render_temporary_schema() -> tuple[str, str]:
    """Statements that give the session its temporary schema and leave nothing in it."""
    name = sql.Identifier("pg_temp", _FUNCTION).as_string(None)
    return (
        f"create function {name}() returns pg_catalog.int4 language sql begin atomic select 1; end",
        f"drop function {name}()",
    )


def render_printing() -> str:
    return _render_settings(_PRINTING)


def render_analysed(path: Sequence[str]) -> str:
    """The query of an analysis' row: canonical text, relations, whether it uses objects of somebody's own, hash."""
    definitions = sql.SQL(_DEFINITIONS).format(path=sql.Literal(list(path)), relations=sql.SQL("named.relations"))
    return sql.SQL(_ANALYSED).format(definitions=definitions, name=sql.Literal(_FUNCTION)).as_string(None)


def render_definitions(relation_oids: Sequence[int], path: Sequence[str]) -> str:
    """The query of the hash alone, for a statement that is known."""
    text = sql.SQL(_DEFINITIONS).format(path=sql.Literal(list(path)), relations=sql.Literal(list(relation_oids)))
    return text.as_string(None)


def render_other_settings(date_style: str, interval_style: str) -> str:
    """Settings that read every literal otherwise which depends on settings."""
    return _render_settings(
        {
            "TimeZone": "Pacific/Chatham",
            "DateStyle": "SQL, MDY" if "DMY" in date_style else "SQL, DMY",
            "IntervalStyle": "postgres" if interval_style == "sql_standard" else "sql_standard",
            "transform_null_equals": "on",
            "array_nulls": "off",
        }
    )


def _render_settings(settings: Mapping[str, str]) -> str:
    calls = (
        sql.SQL("pg_catalog.set_config({}, {}, true)").format(sql.Literal(name), sql.Literal(value))
        for name, value in settings.items()
    )
    return sql.SQL("select {}").format(sql.SQL(", ").join(calls)).as_string(None)


def _type_name(oid: int) -> str:
    declared = COLUMN_TYPES_BY_OID.get(oid)
    if declared is None:
        raise NotProvable(f"a parameter of type {oid} is left to Postgres")
    return sql.Identifier("pg_catalog", declared.typname).as_string(None)
