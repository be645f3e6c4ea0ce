"""Explain: Postgres' plan of a statement, read for what it means to the two tiers. Nothing is run."""

from __future__ import annotations

import psycopg

from thermocline.core.explain import Explanation, parse_explanation
from thermocline.errors import NotExplainable
from thermocline.runtime.pg import connect_as_typed


def explain(dsn: str, statement: str, *, search_path: str | None = None) -> Explanation:
    """The report on one statement, planned as the DSN's role under its own search path or the given one."""
    with connect_as_typed(dsn, application_name="thermocline explain") as conn:
        conn.execute("set transaction read only")
        if search_path is not None:
            conn.execute("select pg_catalog.set_config('search_path', %s::pg_catalog.text, true)", [search_path])
        try:
            row = conn.execute("select thermocline.explain_json(%s::pg_catalog.text)", [statement]).fetchone()
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.SyntaxError) as problem:
            said = str(problem.diag.message_primary).removeprefix(f"{NotExplainable.code}: ")
            raise NotExplainable(f"{said[:1].upper()}{said[1:]}.") from None
        finally:
            conn.rollback()
    assert row is not None
    return parse_explanation(row[0])
