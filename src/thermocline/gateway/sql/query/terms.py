"""An expression in both dialects at once: for DuckDB, and for Postgres over one table's heap rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg import sql

from thermocline.gateway.sql.fragments import Fragment, merged
from thermocline.gateway.sql.query.sql_types import Kind
from thermocline.lake.read.scan import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A provable expression. `heap` is missing where only DuckDB can compute it; `uses` are the tables it reads, by
    number.

    `bound` is what it tells about files when it stands alone as a condition; `plain` names the column when it is
    nothing more.
    """

    kind: Kind
    duck: Fragment
    heap: sql.Composable | None
    uses: frozenset[int] = frozenset()
    bound: tuple[int, Bound] | None = None
    plain: tuple[int, str] | None = None

    def typed(self, kind: Kind) -> Term:
        return replace(self, kind=kind)


def dual(kind: Kind, template: str, *parts: Term, heap: str | None = None) -> Term:
    """An expression over others: `{}` in the template stands for each; `heap` is Postgres' spelling where it
    differs."""
    duck = merged(template, [part.duck for part in parts])
    spelled = sql.SQL(template if heap is None else heap)  # our own words
    inner = [part.heap for part in parts]
    pushed = (
        None if any(part is None for part in inner) else spelled.format(*(part for part in inner if part is not None))
    )
    return Term(kind=kind, duck=duck, heap=pushed, uses=frozenset().union(*(part.uses for part in parts)))


def listed(terms: Sequence[Term]) -> Fragment:
    return merged(", ".join(["{}"] * len(terms)), [term.duck for term in terms])
