"""Open the result stream of a statement that returns rows; check the values of SET, as SHOW is answered here too."""

from __future__ import annotations

from thermocline.core.names import TableName
from thermocline.errors import StatementRefused
from thermocline.gateway.executor.executor_pool import SessionExecutor
from thermocline.gateway.lake_arm.lake_query_service import LakeQueryService
from thermocline.gateway.lake_arm.result_stream import ResultStream
from thermocline.gateway.lake_arm.row_sources import ConstantRows
from thermocline.gateway.sessions.error_responses import SessionError
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
_FIXED_SETTINGS = {
    "timezone": ("gmt", "utc", "etc/utc"),
    "time zone": ("gmt", "utc"),
    "datestyle": ("iso", "iso, mdy", "iso, ymd"),
    "client_encoding": ("utf8", "utf-8", "unicode", "sql_ascii"),
    "standard_conforming_strings": ("on",),
}


def open_portal(
    lake_queries: LakeQueryService, portal: Portal, analyzed: set[TableName], executor: SessionExecutor, login: str
) -> ResultStream:
    """The portal's rows, not yet started, with the rights of the login. Tables that ANALYZE reads are added to
    `analyzed`."""
    match portal.statement:
        case statements.Select() | statements.CopyOut():
            constants = parse_parameters(portal.parameters, portal.oids)
            return lake_queries.open_select(
                portal.statement.sql,
                constants,
                portal.parameters,
                analyzed=frozenset(analyzed),
                executor=executor,
                login=login,
            )
        case statements.Explain():
            constants = parse_parameters(portal.parameters, portal.oids)
            return lake_queries.open_explain(portal.statement.sql, constants, login)
        case statements.RelationSize():
            analyzed.add(portal.statement.table)
            return lake_queries.open_relation_size(portal.statement.table, portal.statement.block_bytes, login)
        case statements.RelationInfo():
            analyzed.add(portal.statement.table)
            return lake_queries.open_relation_info(portal.statement.table, portal.statement.columns, login)
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


def check_setting(name: str, value: str) -> None:
    """Refuse a value that would change how rows are printed or statements are read."""
    allowed = _FIXED_SETTINGS.get(name)
    if allowed is not None and value.lower() not in allowed:
        raise SessionError("0A000", f"the gateway keeps {name} at {allowed[0].upper()}")
