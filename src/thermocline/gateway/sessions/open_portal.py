"""Which stream answers a statement that returns rows."""

from __future__ import annotations

from thermocline.core.names import TableName
from thermocline.errors import StatementRefused
from thermocline.gateway.lake_arm.lake_query_service import Answers
from thermocline.gateway.lake_arm.memory_limits import ConnectionMemory
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import ConstantRows
from thermocline.gateway.sessions.transaction import Portal
from thermocline.gateway.sql import statements
from thermocline.gateway.sql.parameters import constants_of
from thermocline.gateway.wire.messages import Field

ROWS = (
    statements.Select,
    statements.Explain,
    statements.RelationSize,
    statements.RelationInfo,
    statements.ShowParameter,
    statements.CopyOut,
)


def open_portal(answers: Answers, portal: Portal, analyzed: set[TableName], memory: ConnectionMemory) -> ResultStream:
    """The portal's rows, not yet begun. ANALYZE's questions are remembered in `analyzed`."""
    match portal.statement:
        case statements.Select() | statements.CopyOut():
            constants = constants_of(portal.parameters, portal.oids)
            return answers.open_select(
                portal.statement.sql, constants, portal.parameters, analyzed=frozenset(analyzed), memory=memory
            )
        case statements.Explain():
            return answers.open_explain(portal.statement.sql, constants_of(portal.parameters, portal.oids))
        case statements.RelationSize():
            analyzed.add(portal.statement.table)
            return answers.open_relation_size(portal.statement.table, portal.statement.block_bytes)
        case statements.RelationInfo():
            analyzed.add(portal.statement.table)
            return answers.open_relation_info(portal.statement.table, portal.statement.columns)
        case statements.ShowParameter():
            value = answers.parameter(portal.statement.name)
            return ResultStream(ConstantRows([Field(name=portal.statement.name, type_oid=25)], [[value.encode()]]))
    raise StatementRefused


def tag_of(statement: statements.Statement | None, rows: int) -> str:
    """The command tag of a statement that returned rows."""
    match statement:
        case statements.Explain():
            return "EXPLAIN"
        case statements.ShowParameter():
            return "SHOW"
        case statements.CopyOut():
            return f"COPY {rows}"
    return f"SELECT {rows}"
