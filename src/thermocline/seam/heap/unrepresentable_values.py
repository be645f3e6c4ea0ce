"""Which row of a partition holds a value that the lake cannot: so that a refusal names the row, and not only the
column."""

from __future__ import annotations

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.seam.heap.facts import HeapFacts


def read_key_of_value(conn: Connection, heap: HeapFacts, partition: TableName, column: str, value: str) -> str | None:
    """The key of a row that holds the value, as `(id, ts) = (17, 2026-01-15 12:00:00+00)`; `None` when no row shows it
    as this text."""
    names = [key.name for key in heap.primary_key]
    found = conn.execute(
        sql.SQL("select {keys} from only {partition} where {column}::text = {value} limit 1").format(
            keys=sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in names),
            partition=table_identifier(partition),
            column=sql.Identifier(column),
            value=sql.Literal(value),
        )
    ).fetchone()
    return None if found is None else f"({', '.join(names)}) = ({', '.join(found)})"
