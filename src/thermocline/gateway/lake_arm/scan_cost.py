"""Estimate the lake reads of a plan: the files that the gateway would read for each remote query, planned as it plans
them. No file is opened."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from sqlglot import exp

from thermocline.core.explain import ExplainedTable, Explanation, LakeCost, total_cost
from thermocline.gateway.lake_arm.catalog_reader import CatalogReader
from thermocline.gateway.sql.column_mapping import SNAPSHOT_COLUMN
from thermocline.gateway.sql.pushdown.select import LakeQuery, parse_select, plan_select
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier
from thermocline.lake.read.scan import plan_scan


def add_lake_costs(dsn: str, report: Explanation) -> Explanation:
    """The report with the cost of each table that reads the lake."""
    if not any(table.questions for table in report.tables):
        return report
    catalog = CatalogReader(dsn)
    catalog.open()
    with closing(catalog):
        return replace(report, tables=tuple(_with_cost(catalog, table) for table in report.tables))


def _with_cost(catalog: CatalogReader, table: ExplainedTable) -> ExplainedTable:
    if not table.questions:
        return table
    snapshot = table.s
    if snapshot is None:
        return replace(table, cost=LakeCost())
    return replace(
        table, cost=total_cost([_cost(catalog, bind_known_values(q, table, snapshot)) for q in table.questions])
    )


def _cost(catalog: CatalogReader, question: str) -> LakeCost:
    planned = plan_select(question, (), catalog.cached_table)
    cost = LakeCost()
    for scan in (planned.scan,) if isinstance(planned, LakeQuery) else planned.scans:
        assert scan.snapshot_id is not None
        plan = plan_scan(scan.mapped_table.lake_table, scan.snapshot_id, scan.bounds)
        cost += LakeCost(
            files=len(plan.data),
            delete_files=len(plan.deletes),
            files_skipped=plan.files_skipped,
            bytes=sum(file.size_bytes for file in (*plan.data, *plan.deletes)),
            rows=plan.row_count,
            requests=2 * (len(plan.data) + len(plan.deletes)),
        )
    return cost


def bind_known_values(question: str, table: ExplainedTable, snapshot: int) -> str:
    """The remote query with the values of S and T; conditions on values that are known only at run time are left
    out."""
    tree = parse_select(question).copy()
    for parameter in list(tree.find_all(exp.Parameter)):
        conjunct = _condition_of(parameter)
        columns = {fold_identifier(column.this) for column in conjunct.find_all(exp.Column)}
        if columns == {SNAPSHOT_COLUMN}:
            parameter.replace(exp.Literal.number(snapshot))
        elif columns == {table.tier_key} and isinstance(conjunct.unnest(), exp.LT):
            parameter.replace(exp.Literal.string(table.t))
        else:
            conjunct.replace(exp.true())
    return tree.sql(dialect="postgres")


def _condition_of(node: exp.Expr) -> exp.Expr:
    """The conjunct that contains a value."""
    while node.parent is not None and not isinstance(node.parent, exp.And | exp.Where):
        node = node.parent
    return node
