"""Names of tables as people type them: qualified, or found by Postgres in the login's search_path."""

from __future__ import annotations

from thermocline.core.messages.nearest import render_nearest
from thermocline.core.names import TableName, parse_plain_name, parse_table_name, quote_name
from thermocline.errors import BadTableName, TableNotFound
from thermocline.runtime.pg import connect_as_typed, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/table_names.sql")


def resolve_table_name(dsn: str, text: str, *, connect_timeout_seconds: int = 5) -> TableName:
    """`schema.table` as it is, without asking Postgres; a name alone as Postgres itself resolves it. A seam that the
    search_path finds first stands for its table."""
    plain = parse_plain_name(text)
    if plain is None:
        return parse_table_name(text)
    with connect_as_typed(
        dsn, autocommit=True, application_name="thermocline", connect_timeout_seconds=connect_timeout_seconds
    ) as conn:
        cursor = rows_by_name(conn)
        (has_catalog,) = (row.found for row in cursor.execute(_QUERIES["has_catalog"]))
        found = cursor.execute(_QUERIES["resolve"], {"name": quote_name(plain)}).fetchone()
        heap = (
            cursor.execute(_QUERIES["heap_of_seam"], {"oid": found.oid}).fetchone() if found and has_catalog else None
        )
        if (named := heap or found) is not None:
            return TableName(named.schema_name, named.table_name)
        (path,) = (row.path for row in cursor.execute(_QUERIES["search_path"]))
        known = [row.name for row in cursor.execute(_QUERIES["registered"])] if has_catalog else []
    elsewhere = [name for name in known if parse_table_name(name).table == plain]
    hint = f"Did you mean {elsewhere[0]}?" if elsewhere else render_nearest(text, known, otherwise=BadTableName.hint)
    raise TableNotFound(f"There is no table {quote_name(plain)} in the search_path ({path}).", hint=hint)
