"""Statements that contain expressions which only Postgres evaluates exactly.

Candidate rows of each lake table go into a temporary table with the foreign table's own column types and collations;
the very text of the statement runs over them, with only the table names replaced. So functions, joins and aggregates
that `postgres_fdw` ships are exact. The statement may use functions of pg_catalog that compute and do nothing else, and
runs in a read-only transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import generators, pq, sql
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import Token, TokenType

from thermocline.errors import CandidatesTooLarge, StatementRefused, UnknownSnapshot
from thermocline.gateway.executor.executor_pool import SessionExecutor
from thermocline.gateway.executor.executor_stream import ExecutorStream
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.lake_arm.cancellable_connection import CancellableConnection
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine
from thermocline.gateway.lake_arm.text_rows import concatenate_messages, encode_text_rows
from thermocline.gateway.sql.column_mapping import SNAPSHOT_COLUMN, MappedColumn
from thermocline.gateway.sql.pushdown.select import PostgresQuery, parse_select
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier
from thermocline.gateway.sql.table_scan import TableScan
from thermocline.gateway.wire.messages import Field, data_row
from thermocline.gateway.wire.row_encoding import COPY_HEAD_BYTES, EncodedRows, ResultFormat

_FETCH_ROWS = 2_000
_COPY_FORMAT = ResultFormat(is_copy=True)
_WORDS_BEFORE_PARENTHESIS = frozenset(
    {
        "all",
        "and",
        "any",
        "array",
        "as",
        "between",
        "bit",
        "by",
        "case",
        "cast",
        "char",
        "character",
        "coalesce",
        "decimal",
        "distinct",
        "else",
        "end",
        "except",
        "exists",
        "extract",
        "filter",
        "from",
        "greatest",
        "having",
        "ilike",
        "in",
        "inner",
        "interval",
        "is",
        "join",
        "least",
        "left",
        "like",
        "limit",
        "not",
        "null",
        "nullif",
        "numeric",
        "offset",
        "on",
        "operator",
        "or",
        "overlay",
        "position",
        "right",
        "row",
        "select",
        "similar",
        "some",
        "substring",
        "then",
        "time",
        "timestamp",
        "timestamptz",
        "trim",
        "using",
        "values",
        "varchar",
        "varying",
        "when",
        "where",
        "with",
        "zone",
    }
)


def check_functions(text: str, functions: frozenset[str]) -> None:
    """Refuse a statement that calls anything but immutable functions of pg_catalog."""
    tokens: list[Token] = Postgres().tokenize(text)
    for at, token in enumerate(tokens):
        following = tokens[at + 1].token_type if at + 1 < len(tokens) else None
        before = tokens[at - 1].token_type if at else None
        if before is TokenType.DCOLON and token.text.lower().startswith("reg"):
            raise StatementRefused("The gateway does not look names up for a statement.")
        if following is not TokenType.L_PAREN or not (token.text[:1].isalpha() or token.text[:1] == "_"):
            continue
        name = token.text.lower()
        qualified = before is TokenType.DOT
        if qualified and tokens[at - 2].text.lower() != "pg_catalog":
            raise StatementRefused(f"The gateway does not call {tokens[at - 2].text}.{token.text}.")
        if name == "operator" and (at + 2 >= len(tokens) or tokens[at + 2].text.lower() != "pg_catalog"):
            raise StatementRefused("The gateway uses operators of pg_catalog only.")
        if before in (TokenType.ALIAS, TokenType.R_PAREN) and not qualified:
            continue  # a table alias with its column list
        if name not in functions and name not in _WORDS_BEFORE_PARENTHESIS:
            raise StatementRefused(f"The gateway does not call {token.text}.")


class PostgresRows:
    """The result of such a statement."""

    def __init__(
        self,
        query: PostgresQuery,
        parameters: Sequence[bytes | None],
        engine: DuckDbEngine,
        catalog: CatalogReader,
        executor: SessionExecutor,
    ) -> None:
        self._query = query
        self._parameters = list(parameters)
        self._engine = engine
        self._catalog = catalog
        self._executor = executor
        self._held = CancellableConnection()
        self._loading: ExecutorStream | None = None
        self._fields: tuple[Field, ...] | None = None
        self._has_all_rows = False
        self._problem: Exception | None = None
        self._stopped = False

    def fields(self) -> tuple[Field, ...]:
        if self._problem is not None:
            raise self._problem
        if self._fields is None:
            try:
                self._begin()
                conn = self._open_connection()
                conn.pgconn.send_describe_portal(b"tc_answer")
                self._fields = result_fields(wait_for_result(conn))
            except BaseException as problem:
                self._problem = problem if isinstance(problem, Exception) else Cancelled()
                self.close()
                raise
        return self._fields

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        fields = self.fields()
        if self._has_all_rows:
            return None
        binary = shape.all_binary(len(fields))
        result = self._execute(b"fetch forward %d from tc_answer" % _FETCH_ROWS, [], binary=binary)
        if result.ntuples < _FETCH_ROWS:
            # All rows are fetched: return the connection now, however slowly this client reads.
            self._has_all_rows = True
            self.close()
        if result.ntuples == 0:
            return None
        columns = range(result.nfields)
        rows = [[result.get_value(row, at) for at in columns] for row in range(result.ntuples)]
        return (
            concatenate_messages([data_row(row) for row in rows]) if binary else encode_text_rows(rows, fields, shape)
        )

    def interrupt(self) -> None:
        self._stopped = True
        loading = self._loading
        if loading is not None:
            loading.interrupt()
        self._held.cancel()

    def close(self) -> None:
        conn = self._held.let_go()
        if conn is None:
            return
        try:
            if not conn.closed:
                conn.rollback()
                conn.autocommit = True
        except psycopg.Error:
            conn.close()  # Postgres ended it; the pool opens another one
        finally:
            self._catalog.return_evaluation(conn)

    def _open_connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        conn = self._held.conn
        if conn is None or self._stopped:
            raise Cancelled
        return conn

    def _begin(self) -> None:
        check_functions(self._query.sql, self._catalog.immutable_functions())
        for scan in self._query.scans:
            if scan.snapshot_id is not None and not scan.mapped_table.lake_table.has_snapshot(scan.snapshot_id):
                raise UnknownSnapshot(f"The lake table of {scan.mapped_table.name} has no snapshot {scan.snapshot_id}.")
        conn = self._catalog.take_evaluation(lambda: self._stopped)
        self._held.take(conn)
        conn.autocommit = False
        named = _named_columns(self._query.sql)
        budget = self._catalog.candidate_limit_bytes
        for number, scan in enumerate(self._query.scans):
            create_scan_table(self._open_connection(), number, scan)
            budget -= self._load(number, scan, named, budget)
        self._open_connection().execute("set transaction read only")
        self._execute(
            b"declare tc_answer no scroll cursor for " + render_over_scan_tables(self._query).encode(), self._parameters
        )

    def _load(self, number: int, scan: TableScan, named: frozenset[str] | None, budget: int) -> int:
        """Copy a scan's candidate rows into its temporary table; returns their size in bytes."""
        conn = self._open_connection()
        columns = tuple(scan.mapped_table.columns.values())
        wanted = tuple(column for column in columns if named is None or column.name in named)
        loading = self._engine.open_columns(scan, wanted, self._executor)
        if loading is None:
            return 0
        self._loading = loading
        listed = [sql.Identifier(column.name) for column in wanted] or [sql.Identifier(columns[0].name)]
        copied = 0
        try:
            with conn.cursor().copy(
                sql.SQL("copy {} ({}) from stdin").format(_scan_table_name(number), sql.SQL(", ").join(listed))
            ) as copy:
                while (rows := loading.next_rows(_COPY_FORMAT)) is not None:
                    self._open_connection()
                    lines = rows.data[COPY_HEAD_BYTES:]
                    copied += len(lines)
                    if copied > budget:
                        raise CandidatesTooLarge
                    copy.write(lines)
        finally:
            loading.close()
            self._loading = None
        return copied

    def _execute(self, statement: bytes, parameters: list[bytes | None], *, binary: bool = False) -> pq.abc.PGresult:
        return check_result(
            self._open_connection().pgconn.exec_params(statement, parameters, result_format=int(binary))
        )


def check_result(result: pq.abc.PGresult) -> pq.abc.PGresult:
    """The result; raises Postgres' error when it is one."""
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return result
    raise psycopg.errors.error_from_result(result, encoding="utf-8")


def wait_for_result(conn: psycopg.Connection[tuple[Any, ...]]) -> pq.abc.PGresult:
    """Wait for the result of the last message. libpq's own wait would hold the GIL, and with it every other session."""
    results = conn.wait(generators.execute(conn.pgconn))
    return check_result(results[-1])


def result_fields(result: pq.abc.PGresult) -> tuple[Field, ...]:
    """The columns of a result."""
    return tuple(
        Field(
            name=(result.fname(at) or b"").decode(),
            type_oid=result.ftype(at),
            type_size=result.fsize(at),
            type_modifier=result.fmod(at),
        )
        for at in range(result.nfields)
    )


def create_scan_table(conn: psycopg.Connection[tuple[Any, ...]], number: int, scan: TableScan) -> None:
    """Create an empty temporary table with the declared types of a lake table; its snapshot column has the scan's
    snapshot."""
    declared = [_column_definition(column) for column in scan.mapped_table.columns.values()]
    snapshot = sql.SQL("{} bigint default {}").format(sql.Identifier(SNAPSHOT_COLUMN), sql.Literal(scan.snapshot_id))
    conn.execute(
        sql.SQL("create temp table {} ({}) on commit drop").format(
            _scan_table_name(number), sql.SQL(", ").join([*declared, snapshot])
        )
    )


def _scan_table_name(number: int) -> sql.Identifier:
    return sql.Identifier("pg_temp", f"tc_scan_{number}")


def _column_definition(column: MappedColumn) -> sql.Composed:
    # The type's text comes from format_type(), which quotes what needs quoting.
    declared = sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type_name))
    return declared + sql.SQL(" collate {}").format(sql.Identifier(*column.collation)) if column.collation else declared


def _named_columns(text: str) -> frozenset[str] | None:
    """The columns that a statement names; `None` when it selects all by a star."""
    tree = parse_select(text)
    if any(not (isinstance(star.parent, exp.Count)) for star in tree.find_all(exp.Star)):
        return None
    return frozenset(
        fold_identifier(node.this) for node in tree.find_all(exp.Column) if isinstance(node.this, exp.Identifier)
    )


def render_over_scan_tables(query: PostgresQuery) -> str:
    """The statement with each lake table replaced by its temporary table, by position, every other byte as it was."""
    pieces: list[str] = []
    at = 0
    for number, scan in sorted(enumerate(query.scans), key=lambda pair: pair[1].start):
        pieces += [query.sql[at : scan.start], _scan_table_name(number).as_string()]
        if scan.alias is None:
            pieces.append(" as " + sql.Identifier(scan.mapped_table.name.table).as_string())
        at = scan.end
    return "".join([*pieces, query.sql[at:]])
