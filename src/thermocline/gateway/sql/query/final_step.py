"""Statements whose last step only Postgres does exactly: averages, divisions, orders under other collations.

DuckDB groups; the few groups go to Postgres as arrays, on the client's own connection, and the rest of the statement
runs over them there: with the role, time zone and collations of the session, and in the format the client asked for.
The rest is cut from the client's own text, with columns of the groups in the places of what was grouped.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql
from sqlglot import exp

from thermocline.gateway.sql.fragments import Fragment, merged
from thermocline.gateway.sql.query.aggregates import direction
from thermocline.gateway.sql.query.expressions import Expressions
from thermocline.gateway.sql.query.grouping import (
    CORE,
    Core,
    Grouped,
    aggregates_in,
    call_of,
    output_name,
    output_place,
)
from thermocline.gateway.sql.query.parsing import Span, cut, span_of
from thermocline.gateway.sql.query.query_nodes import bare
from thermocline.gateway.sql.query.scope import Scope
from thermocline.gateway.sql.query.selects import Compiler, Query
from thermocline.gateway.sql.query.sql_types import Kind, plain_kind
from thermocline.gateway.sql.syntax_tree import fold
from thermocline.gateway.sql.values import NotProvable


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The last step: a statement for Postgres, and the kinds of the arrays it takes."""

    sql: str
    kinds: tuple[Kind, ...]


def plan_finish(compiler: Compiler, node: exp.Expr) -> tuple[Query, Finish]:
    """The groups as DuckDB computes them, and what Postgres makes of them."""
    if not isinstance(node, exp.Select) or node.args.get("distinct") is not None:
        raise NotProvable("only the end of a GROUP BY is left to Postgres")
    scope = Scope(None)
    for cte in node.args["with_"].expressions if node.args.get("with_") else ():
        compiler.ctes[fold(cte.args["alias"].this)] = compiler.query(cte.this)
    source = compiler.source_of(node, scope)
    averages = [part for part in aggregates_in(node) if isinstance(call_of(part), exp.Avg)]
    more = [made for part in averages for made in _parts_of_average(part)]
    core = compiler.core_of(node, scope, source, top=True, more=more)
    if core is None:
        raise NotProvable("only the end of a GROUP BY is left to Postgres")
    if any(kind.family == "text" and not kind.is_default for kind in core.kinds):
        raise NotProvable("text under a collation of its own is left to Postgres")
    compiler.core = core
    query, having, limited = _reduced(compiler, node, core)
    columns = ", ".join(core.names)
    arrays = ", ".join(
        f"pg_catalog.unnest(${at + 1}::pg_catalog.{kind.family}[])" for at, kind in enumerate(core.kinds)
    )
    rest = _Rest(compiler, core).of(node, having=having, limited=limited)
    text = f"WITH {CORE}({columns}) AS (SELECT * FROM ROWS FROM ({arrays})) {rest}"  # noqa: S608  # our words and the statement's own
    return query, Finish(sql=text, kinds=core.kinds)


def _reduced(compiler: Compiler, node: exp.Select, core: Core) -> tuple[Query, bool, bool]:
    """The groups, fewer of them where HAVING, ORDER BY and LIMIT can be followed; and which of these Postgres need not
    repeat."""
    expressions = Expressions(Grouped(core, None), compiler.reading, core.replaced())
    source, having, tail = Fragment(CORE), False, Fragment("")
    if node.args.get("having") is not None:
        try:
            source = merged("{} WHERE {}", [source, expressions.condition(node.args["having"].this).duck])
        except NotProvable:
            having = True
    limited = False
    if (
        not having
        and node.args.get("limit") is not None
        and (keys := _sort_keys(compiler, node, expressions)) is not None
    ):
        tail, limited = merged(" ORDER BY {}{}", [keys, compiler.tail(node, ())]), True
    listed = Fragment(", ".join(f"{CORE}.{name} AS o{at}" for at, name in enumerate(core.names)))
    duck = merged("SELECT {} FROM {}{}", [listed, source, tail])
    return Query(duck=duck, names=core.names, kinds=core.kinds), having, limited


def _sort_keys(compiler: Compiler, node: exp.Select, expressions: Expressions) -> Fragment | None:
    """The statement's order, or `None` when DuckDB cannot follow it."""
    names = [output_name(part) for part in node.expressions]
    keys: list[Fragment] = []
    for part in node.args["order"].expressions if node.args.get("order") is not None else ():
        at = output_place(bare(part.this), names)
        wanted = node.expressions[at] if at is not None else part.this
        try:
            term = expressions.term(wanted.this if isinstance(wanted, exp.Alias) else wanted)
        except NotProvable:
            return None
        if not term.kind.has_order:
            return None
        nulls = "FIRST" if part.args.get("nulls_first") else "LAST"
        keys.append(merged(f"{{}} {'DESC' if part.args.get('desc') else 'ASC'} NULLS {nulls}", [term.duck]))
    return merged(", ".join(["{}"] * len(keys)), keys) if keys else None


class _Rest:
    """The statement over the groups."""

    def __init__(self, compiler: Compiler, core: Core) -> None:
        self._compiler = compiler
        self._core = core
        self._grouped = Grouped(core, None)
        self._known = list(zip((*core.group_nodes, *core.nodes), core.names, strict=True))

    def of(self, node: exp.Select, *, having: bool, limited: bool) -> str:
        outputs = [self._over_groups(part.this if isinstance(part, exp.Alias) else part) for part in node.expressions]
        words = [f"SELECT {', '.join(outputs)} FROM {CORE}"]  # noqa: S608  # the statement's own words
        if having:
            words.append(f"WHERE {self._over_groups(node.args['having'].this)}")
        if node.args.get("order") is not None:
            words.append("ORDER BY " + ", ".join(self._key(part, node) for part in node.args["order"].expressions))
        for word in ("limit", "offset"):
            if node.args.get(word) is not None and not limited:
                words.append(f"{word.upper()} {self._over_groups(node.args[word].expression)}")
        return " ".join(words)

    def _key(self, part: exp.Expr, node: exp.Select) -> str:
        names = [output_name(output) for output in node.expressions]
        at = output_place(bare(part.this), names)
        return direction(part).replace("{}", str(at + 1) if at is not None else self._over_groups(part.this))

    def _over_groups(self, node: exp.Expr) -> str:
        """The expression in the client's own words, except for what stands in the groups."""
        text = self._compiler.setting.sql
        cut(text, node)
        at, end = _span(node)
        words = []
        for (start, stop), replacement in sorted(self._replacements(node)):
            words += [text[at:start], replacement]
            at = stop
        return "".join([*words, text[at:end]])

    def _replacements(self, node: exp.Expr) -> list[tuple[Span, str]]:
        if (replacement := self._replaced(node)) is not None:
            cut(self._compiler.setting.sql, node)
            return [(_span(node), replacement)]
        return [found for child in node.iter_expressions() for found in self._replacements(child)]

    def _replaced(self, node: exp.Expr) -> str | None:
        for known, name in self._known:
            if node == known:
                return f"{CORE}.{name}"
        if isinstance(call_of(node), exp.Avg):
            return self._average(node)
        if isinstance(node, exp.Column):
            return f"{CORE}.{self._grouped.column(node).duck.text.partition('.')[2]}"
        if isinstance(node, exp.Parameter):
            return self._parameter(node)
        if isinstance(node, exp.Select | exp.Subquery | exp.Exists):
            raise NotProvable("a query within the end of a GROUP BY")
        return None

    def _average(self, node: exp.Expr) -> str:
        total, count = (f"{CORE}.{self._core.names[self._at(part)]}" for part in _parts_of_average(node))
        return f"(CASE WHEN {count} > 0 THEN {total}::pg_catalog.numeric / {count} END)"

    def _at(self, node: exp.Expr) -> int:
        return len(self._core.groups) + self._core.nodes.index(node)

    def _parameter(self, node: exp.Parameter) -> str:
        at = int(str(node.this.this)) - 1
        given = self._compiler.setting.parameters[at]
        kind = plain_kind(given.oid)
        if kind is None or given.text is None:
            raise NotProvable("a parameter at the end of a GROUP BY")
        return f"({sql.Literal(given.text).as_string(None)}::pg_catalog.{kind.family})"


def _span(node: exp.Expr) -> Span:
    span = span_of(node)
    if span is None:
        raise NotProvable("a part of the statement without a place in its text")
    return span


def _parts_of_average(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The sum and the count that an average is made of."""
    call = call_of(node)
    total, count = exp.Sum(this=call.this.copy()), exp.Count(this=call.this.copy(), big_int=True)
    if not isinstance(node, exp.Filter):
        return total, count
    condition = node.args["expression"]
    return tuple(exp.Filter(this=part, expression=condition.copy()) for part in (total, count))  # type: ignore[return-value]
