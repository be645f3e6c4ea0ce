"""A statement judged: what DuckDB runs, over which tables, and what is left for Postgres to finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from thermocline.gateway.sql.query.expressions import Setting
from thermocline.gateway.sql.query.final_step import Finish, plan_finish
from thermocline.gateway.sql.query.grouping import Core
from thermocline.gateway.sql.query.query_nodes import check_known
from thermocline.gateway.sql.query.scope import Use
from thermocline.gateway.sql.query.selects import Compiler, Query
from thermocline.gateway.sql.query.source_tables import SourceTable, TableKey, fold_name, key_of
from thermocline.gateway.sql.values import NotProvable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUse:
    """One mention of a table, with what is needed of it."""

    use: Use
    table: SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """All that the engine needs."""

    query: Query
    core: Core | None
    uses: tuple[TableUse, ...]
    finish: Finish | None

    @property
    def is_divisible(self) -> bool:
        """Whether the heap's part of the outermost GROUP BY can be computed by Postgres, where the heap is."""
        core = self.core
        return (
            core is not None
            and len(self.uses) == 1
            and self.uses[0].table.tiers is not None
            and len(core.scope.relations) == 1
            and core.scope.relations[0].use is self.uses[0].use
            and core.scope.is_narrowed
            and all(term.heap is not None for term in core.groups)
            and all(made.heap is not None and made.combine is not None for made in core.aggregates)
        )


def plan_statement(tree: exp.Expr, setting: Setting, tables: Mapping[TableKey, SourceTable]) -> Statement:
    """The statement, provable to the last node; else `NotProvable` says why not."""
    check_known(tree)
    try:
        compiler, uses = _compiler(setting, tables)
        query, finish = compiler.query(tree, top=True), None
    except NotProvable as first:
        compiler, uses = _compiler(setting, tables)
        try:
            query, finish = plan_finish(compiler, tree)
        except NotProvable:
            raise first from None
    for use in uses:
        _check_rights(use)
    return Statement(query=query, core=compiler.core, uses=tuple(uses), finish=finish)


def _compiler(setting: Setting, tables: Mapping[TableKey, SourceTable]) -> tuple[Compiler, list[TableUse]]:
    uses: list[TableUse] = []

    def open_table(node: exp.Table) -> Use:
        table = tables.get(key_of(node))
        if table is None:
            raise NotProvable(f"{fold_name(node)} is a table here and a CTE elsewhere")
        use = Use(number=len(uses), schema=table.name.schema, columns=table.columns)
        uses.append(TableUse(use=use, table=table))
        return use

    return Compiler(setting=setting, open_table=open_table), uses


def _check_rights(made: TableUse) -> None:
    """What the role may not read is Postgres' to refuse, in its own words."""
    readable = made.table.readable
    if not readable or not readable >= set(made.use.wanted):
        raise NotProvable(f"the role may not read all of {made.table.name}")
