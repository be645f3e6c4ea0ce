"""Which stream lake_queries a statement that returns rows."""

from __future__ import annotations

from thermocline.core.names import TableName
from thermocline.errors import StatementRefused
from thermocline.gateway.lake_arm.lake_query_service import LakeQueryService
from thermocline.gateway.lake_arm.memory_limits import ConnectionMemory
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import ConstantRows
from thermocline.gateway.sessions.transaction import Portal
from thermocline.gateway.sql.parameters import parse_parameters
from thermocline.gateway.sql.syntax import statements
from thermocline.gateway.wire.messages import Field

ROW_STATEMENTS = (
    statements.Select,
    statements.Explain,
    statements.RelationSize,
    statements.RelationInfo,
    statements.ShowParameter,
    statements.CopyOut,
)


def open_portal(
    lake_queries: LakeQueryService, portal: Portal, analyzed: set[TableName], memory: ConnectionMemory
) -> ResultStream:
    """The portal's rows, not yet started. Tables that ANALYZE reads are added to `analyzed`."""
    match portal.statement:
        case statements.Select() | statements.CopyOut():
            constants = parse_parameters(portal.parameters, portal.oids)
            return lake_queries.open_select(
                portal.statement.sql, constants, portal.parameters, analyzed=frozenset(analyzed), memory=memory
            )
        case statements.Explain():
            return lake_queries.open_explain(portal.statement.sql, parse_parameters(portal.parameters, portal.oids))
        case statements.RelationSize():
            analyzed.add(portal.statement.table)
            return lake_queries.open_relation_size(portal.statement.table, portal.statement.block_bytes)
        case statements.RelationInfo():
            analyzed.add(portal.statement.table)
            return lake_queries.open_relation_info(portal.statement.table, portal.statement.columns)
        case statements.ShowParameter():
            value = lake_queries.parameter(portal.statement.name)
            return ResultStream(ConstantRows([Field(name=portal.statement.name, type_oid=25)], [[value.encode()]]))
    raise StatementRefused


def command_tag(statement: statements.Statement | None, rows: int) -> str:
    """The command tag of a statement that returned rows."""
    match statement:
        case statements.Explain():
            return "EXPLAIN"
        case statements.ShowParameter():
            return "SHOW"
        case statements.CopyOut():
            return f"COPY {rows}"
    return f"SELECT {rows}"
