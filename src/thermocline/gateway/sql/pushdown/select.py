"""Plan a SELECT: DuckDB runs it when every part is known to give Postgres' bytes, else Postgres evaluates it.

Pure: a statement, its parameters and its tables in; a `LakeQuery` or a `PostgresQuery` out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from thermocline.core.names import TableName
from thermocline.core.types import COLUMN_TYPES, COLUMN_TYPES_BY_OID, LAKE_TYPES, POSTGRES_TYPES
from thermocline.errors import SnapshotNotNamed, StatementRefused
from thermocline.gateway.sql.column_mapping import SNAPSHOT_COLUMN, MappedColumn, MappedTable
from thermocline.gateway.sql.fragments import Fragment
from thermocline.gateway.sql.pushdown.conditions import compile_condition
from thermocline.gateway.sql.pushdown.file_bounds import derive_bound
from thermocline.gateway.sql.pushdown.operands import Operands
from thermocline.gateway.sql.pushdown.pushdown_nodes import check_condition_nodes, check_statement_nodes
from thermocline.gateway.sql.syntax.syntax_tree import (
    TREE_BYTES_PER_CHARACTER,
    TREES_BYTES,
    fold_identifier,
    split_conjuncts,
    strip_parentheses,
)
from thermocline.gateway.sql.table_scan import TableScan
from thermocline.gateway.sql.values import Constant, NotProvable, parse_int
from thermocline.gateway.wire.messages import Field
from thermocline.lake.read.scan import Bound
from thermocline.runtime.memory.bounded_cache import cached_by_text

ReadTable = Callable[[TableName], MappedTable]

NOT_COMPILED = (NotProvable, RecursionError, ValueError, ArithmeticError)
"""Errors of a condition that is nested too deeply or has too many digits for Python; Postgres then evaluates it."""
_ORDERED_KINDS = frozenset(kind for kind in POSTGRES_TYPES if LAKE_TYPES[kind].order != "nan")
_MIN_MAX_KINDS = frozenset(declared.lake.name for declared in COLUMN_TYPES.values() if declared.axis is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One column of the result."""

    fragment: Fragment
    field: Field
    when_empty: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeQuery:
    """A statement that DuckDB runs exactly."""

    scan: TableScan
    outputs: tuple[Output, ...]
    order: tuple[str, ...]
    limit: int | None
    offset: int
    is_aggregate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresQuery:
    """A statement that Postgres evaluates over candidate rows of its lake tables."""

    sql: str
    scans: tuple[TableScan, ...]
    reason: str


@cached_by_text(max_bytes=TREES_BYTES, bytes_per_character=TREE_BYTES_PER_CHARACTER)
def parse_select(sql: str) -> exp.Select:
    """The statement's tree. It is cached, so callers must not change it."""
    try:
        tree = sqlglot.parse_one(sql, dialect="postgres")
    except (SqlglotError, RecursionError) as bad:
        raise StatementRefused("The gateway cannot read this statement.") from bad
    if not isinstance(tree, exp.Select):
        raise StatementRefused("The gateway runs SELECT only.")
    for part in ("with_", "locks", "into"):
        if tree.args.get(part):
            raise StatementRefused(f"The gateway does not run SELECT with {part.strip('_').upper()}.")
    return tree


def table_names(tree: exp.Select) -> tuple[TableName, ...]:
    """Every table the statement names, in order; all must be lake tables."""
    return tuple(_table_name(table) for table in tree.find_all(exp.Table))


def _table_name(table: exp.Table) -> TableName:
    if not isinstance(table.this, exp.Identifier) or table.args.get("catalog") or not table.args.get("db"):
        raise StatementRefused(f"{table.sql(dialect='postgres')[:80]} is not a schema-qualified lake table.")
    return TableName(fold_identifier(table.args["db"]), fold_identifier(table.this))


def plan_select(
    sql: str,
    parameters: Sequence[Constant],
    read_table: ReadTable,
    *,
    default_snapshot: Callable[[TableName], int | None] | None = None,
) -> LakeQuery | PostgresQuery:
    """Decide who runs the statement, and plan it. `default_snapshot` is for ANALYZE and EXPLAIN, which cannot name a
    snapshot."""
    tree = parse_select(sql)
    tables = list(tree.find_all(exp.Table))
    if not tables:
        raise StatementRefused("The statement reads no lake table.")
    mapped_table = {id(table): read_table(_table_name(table)) for table in tables}
    scans = tuple(_plan_table(table, mapped_table[id(table)], parameters, default_snapshot) for table in tables)
    try:
        if len(tables) != 1:
            raise NotProvable("more than one table")
        return _plan_lake_query(tree, tables[0], scans[0], parameters)
    except NOT_COMPILED as why:
        return PostgresQuery(sql=sql, scans=scans, reason=str(why))


def _scope(
    table: exp.Table, mapped_table: MappedTable, parameters: Sequence[Constant], *, qualified_only: bool
) -> Operands:
    alias = table.args.get("alias")
    qualifier_name = fold_identifier(alias.this) if alias and alias.this else fold_identifier(table.this)

    def column(node: exp.Column) -> MappedColumn:
        qualifier = node.args.get("table")
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            raise NotProvable("qualified column")
        if (qualifier is None and qualified_only) or (
            qualifier is not None and fold_identifier(qualifier) != qualifier_name
        ):
            raise NotProvable("column of another table")
        name = fold_identifier(node.this)
        if name not in mapped_table.columns:
            raise NotProvable(f"column {name} is not a lake column")
        return mapped_table.columns[name]

    return Operands(column, parameters)


def _plan_table(
    table: exp.Table,
    mapped_table: MappedTable,
    parameters: Sequence[Constant],
    default_snapshot: Callable[[TableName], int | None] | None,
) -> TableScan:
    select = table.find_ancestor(exp.Select)
    if select is None:
        raise StatementRefused
    alone = len(list(select.find_all(exp.Table))) == 1
    scope = _scope(table, mapped_table, parameters, qualified_only=not alone)
    condition: list[Fragment] = []
    bounds: list[Bound] = []
    snapshots: list[int | None] = []
    for part in _strict_conjuncts(select, table):
        is_snapshot, snapshot_id = _snapshot(part, table, scope, alone=alone)
        if is_snapshot:
            snapshots.append(snapshot_id)
            continue
        try:
            check_condition_nodes(part)
            condition.append(compile_condition(part, scope))
            if bound := derive_bound(part, scope):
                bounds.append(bound)
        except NOT_COMPILED:
            continue
    if not snapshots:
        if default_snapshot is None:
            raise SnapshotNotNamed(
                f"A read of {mapped_table.name} must say at which snapshot, by {SNAPSHOT_COLUMN} = …."
            )
        snapshots.append(default_snapshot(mapped_table.name))
    start, end = _place(table)
    alias = table.args.get("alias")
    return TableScan(
        mapped_table=mapped_table,
        snapshot_id=snapshots[0] if len(set(snapshots)) == 1 else None,
        condition=tuple(condition),
        bounds=tuple(bounds),
        start=start,
        end=end,
        alias=fold_identifier(alias.this) if alias and alias.this else None,
    )


def _place(table: exp.Table) -> tuple[int, int]:
    first, last = table.args["db"].meta, table.this.meta
    if "start" not in first or "end" not in last:
        raise StatementRefused("The gateway cannot place a table name in this statement.")
    return int(first["start"]), int(last["end"]) + 1


def _strict_conjuncts(select: exp.Select, table: exp.Table) -> list[exp.Expr]:
    """Conditions that rows of the table must satisfy to affect the result: WHERE, and ON of joins that do not preserve
    the table's rows."""
    where = select.args.get("where")
    found = split_conjuncts(where.this) if where else []
    tables = list(select.find_all(exp.Table))
    if len(tables) > 1:
        # IS NULL is true for rows that an outer join null-extends, so only comparisons may be applied before the join.
        found = [
            part for part in found if not isinstance(part, exp.Is | exp.Not | exp.NullSafeEQ | exp.NullSafeNEQ | exp.Or)
        ]
    for join in select.find_all(exp.Join):
        condition = join.args.get("on")
        inner = not join.side and join.kind in ("", "INNER", "CROSS")
        right_of_left = join.side == "LEFT" and any(node is table for node in join.this.find_all(exp.Table))
        if condition and (inner or right_of_left):
            strict = [
                part
                for part in split_conjuncts(condition)
                if type(part) in (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NEQ)
            ]
            found += strict
    return found


def _snapshot(part: exp.Expr, table: exp.Table, scope: Operands, *, alone: bool) -> tuple[bool, int | None]:
    """Whether a conjunct names the table's snapshot, and which; NULL selects no snapshot."""
    part = strip_parentheses(part)
    if not isinstance(part, exp.EQ):
        return False, None
    for column, other in ((part.this, part.expression), (part.expression, part.this)):
        named = strip_parentheses(column)
        if (
            not isinstance(named, exp.Column)
            or fold_identifier(named.this) != SNAPSHOT_COLUMN
            or not _is_column_of(named, table, alone=alone)
        ):
            continue
        try:
            constant = scope.constant(other)
            if constant is not None and constant.type in ("int", "number", "unknown"):
                return True, None if constant.text is None else parse_int(constant.text)
        except NotProvable:
            continue
    return False, None


def _is_column_of(column: exp.Column, table: exp.Table, *, alone: bool) -> bool:
    qualifier, alias = column.args.get("table"), table.args.get("alias")
    if qualifier is None:
        return alone
    return fold_identifier(qualifier) == (
        fold_identifier(alias.this) if alias and alias.this else fold_identifier(table.this)
    )


def _plan_lake_query(tree: exp.Select, table: exp.Table, scan: TableScan, parameters: Sequence[Constant]) -> LakeQuery:
    check_statement_nodes(tree)
    scope = _scope(table, scan.mapped_table, parameters, qualified_only=False)
    where = tree.args.get("where")
    for part in split_conjuncts(where.this) if where else []:
        if not _snapshot(part, table, scope, alone=True)[0]:
            compile_condition(part, scope)
    is_aggregate = any(isinstance(strip_parentheses(_strip_alias(node)), exp.AggFunc) for node in tree.expressions)
    outputs = tuple(_output(node, table, scan, scope, is_aggregate=is_aggregate) for node in tree.expressions)
    order = tree.args.get("order")
    if is_aggregate and (order or tree.args.get("limit") or tree.args.get("offset")):
        raise NotProvable("ordered aggregate")
    return LakeQuery(
        scan=scan,
        outputs=outputs,
        order=tuple(_order(node, scope) for node in order.expressions) if order else (),
        limit=_count(tree.args.get("limit"), scope),
        offset=_count(tree.args.get("offset"), scope) or 0,
        is_aggregate=is_aggregate,
    )


def _strip_alias(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _output(node: exp.Expr, table: exp.Table, scan: TableScan, scope: Operands, *, is_aggregate: bool) -> Output:
    name = fold_identifier(node.args["alias"]) if isinstance(node, exp.Alias) else None
    node = strip_parentheses(_strip_alias(node))
    if is_aggregate:
        return _aggregate(node, name, scope)
    if isinstance(node, exp.Null):
        return Output(fragment=Fragment("NULL"), field=Field(name=name or "?column?", type_oid=25))
    if not isinstance(node, exp.Column):
        raise NotProvable("expression in the select list")
    if (
        isinstance(node.this, exp.Identifier)
        and fold_identifier(node.this) == SNAPSHOT_COLUMN
        and _is_column_of(node, table, alone=True)
    ):
        field = Field(name=name or SNAPSHOT_COLUMN, type_oid=20, type_size=8)
        return Output(fragment=Fragment("CAST(? AS BIGINT)", (scan.snapshot_id or 0,)), field=field)
    column = scope.column(node)
    if column is None:
        raise NotProvable("expression in the select list")
    return Output(fragment=Fragment(column.sql), field=field_of(column, name))


def field_of(column: MappedColumn, name: str | None = None) -> Field:
    """The column as a field of a RowDescription."""
    declared = COLUMN_TYPES_BY_OID.get(column.type_oid)
    size = declared.size if declared is not None else -1
    return Field(name=name or column.name, type_oid=column.type_oid, type_size=size, type_modifier=column.type_modifier)


def _aggregate(node: exp.Expr, name: str | None, scope: Operands) -> Output:
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star) and not node.expressions:
        return Output(
            fragment=Fragment("count(*)"), field=Field(name=name or "count", type_oid=20, type_size=8), when_empty=b"0"
        )
    if (
        not isinstance(node, exp.Count | exp.Min | exp.Max)
        or not isinstance(strip_parentheses(node.this), exp.Column)
        or node.expressions
    ):
        raise NotProvable("aggregate")
    column = scope.column(node.this)
    if column is None:
        raise NotProvable("aggregate of an expression")
    if isinstance(node, exp.Count):
        field = Field(name=name or "count", type_oid=20, type_size=8)
        return Output(fragment=Fragment(f"count({column.sql})"), field=field, when_empty=b"0")
    if column.field.kind not in _MIN_MAX_KINDS or not column.order:
        raise NotProvable("min or max of this type")
    verb = "min" if isinstance(node, exp.Min) else "max"
    return Output(fragment=Fragment(f"{verb}({column.sql})"), field=field_of(column, name or verb))


def _order(node: exp.Expr, scope: Operands) -> str:
    if not isinstance(node, exp.Ordered) or not isinstance(strip_parentheses(node.this), exp.Column):
        raise NotProvable("order by an expression")
    column = scope.column(node.this)
    if column is None or not column.order or column.field.kind not in _ORDERED_KINDS:
        raise NotProvable("order that depends on type or collation")
    direction = "DESC" if node.args.get("desc") else "ASC"
    nulls = "NULLS FIRST" if node.args.get("nulls_first") else "NULLS LAST"
    return f"{column.sql} {direction} {nulls}"


def _count(node: exp.Expr | None, scope: Operands) -> int | None:
    if node is None:
        return None
    constant = scope.constant(node.expression)
    if constant is None or constant.type not in ("int", "number", "unknown"):
        raise NotProvable("computed limit")
    if constant.text is None:
        return None
    count = parse_int(constant.text)
    if count < 0:
        raise NotProvable("negative limit")
    return count
