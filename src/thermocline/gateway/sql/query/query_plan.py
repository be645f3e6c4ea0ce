"""The plan of a whole query: the query that DuckDB runs, its tables, and the final step that Postgres runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from thermocline.gateway.sql.expressions.query_settings import QuerySettings
from thermocline.gateway.sql.query.final_step import FinalStep, plan_final_step
from thermocline.gateway.sql.query.grouping import GroupBy
from thermocline.gateway.sql.query.scope import TableUsage
from thermocline.gateway.sql.query.selects import CompiledQuery, QueryCompiler
from thermocline.gateway.sql.query.source_tables import SourceTable, TableKey, fold_name, key_of
from thermocline.gateway.sql.syntax.query_nodes import check_query_nodes
from thermocline.gateway.sql.values import NotProvable


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTable:
    """One table of the FROM clauses, with the columns and rows that the statement needs."""

    usage: TableUsage
    table: SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """The plan of one statement."""

    query: CompiledQuery
    group_by: GroupBy | None
    used_tables: tuple[UsedTable, ...]
    final_step: FinalStep | None

    @property
    def has_heap_groups(self) -> bool:
        """Whether Postgres can compute the heap's part of the outermost GROUP BY."""
        group_by = self.group_by
        return (
            group_by is not None
            and len(self.used_tables) == 1
            and self.used_tables[0].table.tiers is not None
            and len(group_by.scope.relations) == 1
            and group_by.scope.relations[0].use is self.used_tables[0].usage
            and group_by.scope.is_narrowed
            and all(term.heap is not None for term in group_by.groups)
            and all(made.heap is not None and made.combine is not None for made in group_by.aggregates)
        )


def plan_query(tree: exp.Expr, setting: QuerySettings, tables: Mapping[TableKey, SourceTable]) -> QueryPlan:
    """Plan a statement of which every node is provable; else `NotProvable` says why not."""
    check_query_nodes(tree)
    try:
        compiler, used_tables = _compiler(setting, tables)
        query, final_step = compiler.query(tree, top=True), None
    except NotProvable as first:
        compiler, used_tables = _compiler(setting, tables)
        try:
            query, final_step = plan_final_step(compiler, tree)
        except NotProvable:
            raise first from None
    for used in used_tables:
        _check_rights(used)
    return QueryPlan(query=query, group_by=compiler.group_by, used_tables=tuple(used_tables), final_step=final_step)


def _compiler(setting: QuerySettings, tables: Mapping[TableKey, SourceTable]) -> tuple[QueryCompiler, list[UsedTable]]:
    used_tables: list[UsedTable] = []

    def open_table(node: exp.Table) -> TableUsage:
        table = tables.get(key_of(node))
        if table is None:
            raise NotProvable(f"{fold_name(node)} is a table here and a CTE elsewhere")
        usage = TableUsage(number=len(used_tables), schema=table.name.schema, columns=table.columns)
        used_tables.append(UsedTable(usage=usage, table=table))
        return usage

    return QueryCompiler(setting=setting, open_table=open_table), used_tables


def _check_rights(used: UsedTable) -> None:
    """Leave a statement that reads more than the role may to Postgres, which reports the error."""
    readable = used.table.readable
    if not readable or not readable >= set(used.usage.wanted) | used.usage.asked:
        raise NotProvable(f"the role may not read all of {used.table.name}")
