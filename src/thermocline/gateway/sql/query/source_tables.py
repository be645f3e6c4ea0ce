"""The tables of a whole query: names in the statement, columns, and where their rows are."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from thermocline.core.axis import KeyType
from thermocline.core.names import TableName
from thermocline.gateway.sql.column_mapping import MappedTable
from thermocline.gateway.sql.query.scope import SourceColumn
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier
from thermocline.gateway.sql.values import NotProvable


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """The lake side of a spanning table: T and S at the snapshot, and the name of the delta."""

    t: int
    s: int | None
    tier_key: str
    key_type: KeyType
    pk: tuple[str, ...]
    delta: TableName
    mapped_table: MappedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table that can be read. A plain table has all rows in `heap`; a spanning table has those below T in the
    lake."""

    name: TableName
    heap: TableName
    columns: dict[str, SourceColumn]
    readable: frozenset[str]
    tiers: Tiers | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The role whose privileges and search path apply."""

    name: str
    path: tuple[str, ...]


def table_nodes(tree: exp.Expr) -> list[exp.Table]:
    """Every table the statement names, CTEs left out."""
    ctes = {fold_identifier(cte.args["alias"].this) for cte in tree.find_all(exp.CTE)}
    return [node for node in tree.find_all(exp.Table) if node.args.get("db") or fold_name(node) not in ctes]


def fold_name(node: exp.Table) -> str:
    if not isinstance(node.this, exp.Identifier):
        raise NotProvable("a function in FROM is left to Postgres")
    return fold_identifier(node.this)


TableKey = tuple[str | None, str]


def key_of(node: exp.Table) -> TableKey:
    """The name of a table as spelled in the statement."""
    return (fold_identifier(node.args["db"]) if node.args.get("db") else None, fold_name(node))
