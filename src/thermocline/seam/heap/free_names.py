"""Names that no relation of the database has."""

from __future__ import annotations

from thermocline.core.names import MAX_IDENTIFIER_BYTES, TableName
from thermocline.runtime.pg import Connection

_IS_TAKEN = (
    "select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s"
)


def free_name(conn: Connection, wanted: TableName) -> TableName:
    """The wanted name, cut to an identifier's length and numbered until no relation of the schema has it."""
    name = wanted.table.encode()[:MAX_IDENTIFIER_BYTES].decode(errors="ignore")
    candidate, number = name, 1
    while conn.execute(_IS_TAKEN, [wanted.schema, candidate]).fetchone() is not None:
        number += 1
        tail = f"_{number}"
        candidate = name.encode()[: MAX_IDENTIFIER_BYTES - len(tail)].decode(errors="ignore") + tail
    return TableName(wanted.schema, candidate)
