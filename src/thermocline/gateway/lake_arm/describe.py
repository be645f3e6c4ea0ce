"""Describe a statement before its parameters have values: Postgres prepares it over empty tables of the declared
types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.postgres_evaluation import (
    create_scan_table,
    render_over_scan_tables,
    result_fields,
    wait_for_result,
)
from thermocline.gateway.sql.pushdown.select import LakeQuery, PostgresQuery, ReadTable, parse_select, plan_select
from thermocline.gateway.sql.values import Constant
from thermocline.gateway.wire.messages import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The types of the parameters, and the columns of the result."""

    parameter_oids: tuple[int, ...]
    fields: tuple[Field, ...]


def describe_select(sql: str, oids: Sequence[int], catalog: CatalogReader, read_table: ReadTable) -> Description:
    """Let Postgres describe the statement; it infers the types of parameters that the client left open."""
    count = max((int(str(node.this.this)) for node in parse_select(sql).find_all(exp.Parameter)), default=0)
    unknown_values = [Constant(None, "unknown")] * max(count, len(oids))
    query = plan_select(sql, unknown_values, read_table, default_snapshot=lambda _: None)
    postgres_query = (
        PostgresQuery(sql=sql, scans=(query.scan,), reason="described") if isinstance(query, LakeQuery) else query
    )
    conn = catalog.take_evaluation(lambda: False)
    try:
        conn.autocommit = False
        for number, scan in enumerate(postgres_query.scans):
            create_scan_table(conn, number, scan)
        conn.pgconn.send_prepare(b"", render_over_scan_tables(postgres_query).encode(), list(oids) or None)
        wait_for_result(conn)
        conn.pgconn.send_describe_prepared(b"")
        described = wait_for_result(conn)
        return Description(
            parameter_oids=tuple(described.param_type(at) for at in range(described.nparams)),
            fields=result_fields(described),
        )
    finally:
        if not conn.closed:
            conn.rollback()
            conn.autocommit = True
        catalog.return_evaluation(conn)
