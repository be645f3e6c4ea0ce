"""Tables whose rows are declared in Python: functions in SQL read what the program itself goes by.

To add one: create the table in a new migration (`tables/NNNN_name.sql`), with a primary key, and append a
`ReferenceTable` with its rows to `REFERENCE_TABLES`. Every init or upgrade with other rows synchronises the table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql
from psycopg.types.json import Jsonb

from thermocline.core.modes.mode import MODES
from thermocline.core.modes.routing import ROUTES
from thermocline.core.types import COLUMN_TYPES, MAX_DECIMAL_PRECISION, UNFAITHFUL_TYPES
from thermocline.runtime.pg import Connection, load_queries

Value = str | int | bool | None | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTable:
    """A table in schema `thermocline`, its primary key, and all its rows; each row names the same columns."""

    name: str
    key: tuple[str, ...]
    rows: tuple[Mapping[str, Value], ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps([self.key, [dict(row) for row in self.rows]]).encode()).hexdigest()


_TEMPLATE_FILES = ("tables", "view", "capture", "routing", "truncate")
"""Files of `seam/templates`: the statements of the seam, which Postgres fills in (`thermocline.render`)."""

REFERENCE_TABLES: tuple[ReferenceTable, ...] = (
    ReferenceTable(
        name="templates",
        key=("name",),
        rows=tuple(
            {"name": name, "body": body}
            for file in _TEMPLATE_FILES
            for name, body in load_queries("thermocline.seam", f"templates/{file}.sql").items()
        ),
    ),
    ReferenceTable(
        name="modes",
        key=("name",),
        rows=tuple(
            {
                "name": mode.name,
                "heap_holds": mode.heap_holds,
                "lake_holds": mode.lake_holds,
                "lake_writer": mode.lake_writer,
                "reads_from": mode.reads_from,
                "heap_is_complete": mode.heap_is_complete,
                "drops_partitions": mode.drops_partitions,
                "splits_reads_at_t": mode.splits_reads_at_t,
                "allows_lake_retention": mode.allows_lake_retention,
                "keeps_capture": mode.keeps_capture,
                "is_built": mode.is_built,
            }
            for mode in MODES
        ),
    ),
    ReferenceTable(
        name="routes",
        key=("operation", "mode", "side"),
        rows=tuple(
            {
                "operation": str(operation),
                "mode": mode.name,
                "side": str(side),
                "path": str(route.path),
                "sentence": route.sentence,
            }
            for (operation, mode, side), route in ROUTES.items()
        ),
    ),
    ReferenceTable(
        name="column_types",
        key=("typname",),
        rows=tuple(
            {
                "typname": declared.typname,
                "name": declared.name,
                "lake_type": declared.lake.name,
                "max_precision": MAX_DECIMAL_PRECISION if declared.lake.parameters else None,
                "is_collated": declared.lake.order == "collation",
                "widens_to": declared.widens_to,
                "axis_unit": declared.axis.unit if declared.axis is not None else None,
                "from_axis": declared.axis.from_axis if declared.axis is not None else None,
            }
            for declared in COLUMN_TYPES.values()
        ),
    ),
    ReferenceTable(
        name="unfaithful_types", key=("pattern",), rows=tuple({"pattern": pattern} for pattern in UNFAITHFUL_TYPES)
    ),
)


def apply_reference_table(conn: Connection, table: ReferenceTable) -> None:
    """Make the table's rows the declared ones: rows that differ are updated, others inserted or deleted."""
    columns = tuple(table.rows[0])
    parts = {
        "table": sql.Identifier("thermocline", table.name),
        "columns": _list(columns),
        "key": _list(table.key),
        "given_key": _list(table.key, "g"),
        "present_key": _list(table.key, "p"),
        "given": _list(columns, "g"),
        "present": _list(columns, "p"),
        "excluded": _list(columns, "excluded"),
    }
    rows = Jsonb([dict(row) for row in table.rows])
    conn.execute(sql.SQL(_DELETE).format(**parts), [rows])
    conn.execute(sql.SQL(_UPSERT).format(**parts), [rows])


_DELETE = """
delete from {table} p where not exists (
    select from jsonb_populate_recordset(null::{table}, %s) g where ({given_key}) = ({present_key}))"""
_UPSERT = """
insert into {table} as p ({columns})
select {given} from jsonb_populate_recordset(null::{table}, %s) g
on conflict ({key}) do update set ({columns}) = row ({excluded})
 where ({present}) is distinct from ({excluded})"""


def _list(columns: tuple[str, ...], alias: str | None = None) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*([alias] if alias else []), column) for column in columns)
