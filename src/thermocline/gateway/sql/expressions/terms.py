"""An expression in both dialects: for DuckDB, and for Postgres over one table's heap rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg import sql

from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.lake.read.scan import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """An expression that both engines compute alike.

    `heap` is its Postgres SQL over heap rows, `None` where only DuckDB can compute it; `relation_numbers` are the
    relations it reads. `bound` is the bound on file statistics that it implies as a condition; `column` is its relation
    and column when it is a plain column.
    """

    sql_type: SqlType
    duckdb: Fragment
    heap: sql.Composable | None
    relation_numbers: frozenset[int] = frozenset()
    bound: tuple[int, Bound] | None = None
    column: tuple[int, str] | None = None

    def with_type(self, sql_type: SqlType) -> Term:
        return replace(self, sql_type=sql_type)


def compose_term(sql_type: SqlType, template: str, *parts: Term, heap: str | None = None) -> Term:
    """Compose a term from others: each `{}` of the template is one of them. `heap` is Postgres' template where it
    differs."""
    duckdb = fill_template(template, [part.duckdb for part in parts])
    spelled = sql.SQL(template if heap is None else heap)  # our own words
    inner = [part.heap for part in parts]
    pushed = (
        None if any(part is None for part in inner) else spelled.format(*(part for part in inner if part is not None))
    )
    return Term(
        sql_type=sql_type,
        duckdb=duckdb,
        heap=pushed,
        relation_numbers=frozenset().union(*(part.relation_numbers for part in parts)),
    )


def select_list(terms: Sequence[Term]) -> Fragment:
    return fill_template(", ".join(["{}"] * len(terms)), [term.duckdb for term in terms])
