"""Queries as DuckDB runs them: FROM, WHERE, GROUP BY, ORDER BY, set operations, queries within queries.

Every table becomes a named source `t0`, `t1`, …, which the engine fills with the rows of both tiers; the outermost
GROUP BY becomes the named relation `k`, so that the heap's part of it can be computed where the heap is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from thermocline.gateway.sql.fragments import Fragment, merged
from thermocline.gateway.sql.query.aggregates import direction, read_aggregate, read_window
from thermocline.gateway.sql.query.constants import limit_of
from thermocline.gateway.sql.query.expressions import Expressions, Names, Reading, Setting, conjuncts
from thermocline.gateway.sql.query.functions import FUNCTIONS
from thermocline.gateway.sql.query.grouping import (
    CORE,
    NAMELESS,
    Core,
    Grouped,
    Source,
    aggregates_in,
    call_of,
    group_node,
    output_name,
    output_place,
    outputs_of,
)
from thermocline.gateway.sql.query.query_nodes import bare
from thermocline.gateway.sql.query.scope import Relation, Scope, Use
from thermocline.gateway.sql.query.sql_types import BOOL, Kind, check_meet, meet_collations
from thermocline.gateway.sql.query.terms import Term
from thermocline.gateway.sql.syntax_tree import fold
from thermocline.gateway.sql.values import NotProvable

OpenTable = Callable[[exp.Table], Use]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query and its columns."""

    duck: Fragment
    names: tuple[str | None, ...]
    kinds: tuple[Kind, ...]


@dataclass(slots=True)
class Compiler:
    """Compiles one statement."""

    setting: Setting
    open_table: OpenTable
    ctes: dict[str, Query] = field(default_factory=dict)
    core: Core | None = None
    _relations: int = 0

    @property
    def reading(self) -> Reading:
        return Reading(setting=self.setting, queries=self, functions={**FUNCTIONS, exp.Window: read_window})

    def query(self, node: exp.Expr, outer: Names | None = None, *, top: bool = False) -> Query:
        """A SELECT or a UNION, with its WITH."""
        node = _unwrapped(node)
        known = dict(self.ctes)
        for cte in node.args["with_"].expressions if node.args.get("with_") else ():
            made = self.query(cte.this, None)
            self.ctes[fold(cte.args["alias"].this)] = made
        try:
            match node:
                case exp.Select():
                    return self._select(node, outer, top=top)
                case exp.Union():
                    return self._union(node, outer)
        finally:
            self.ctes = known
        raise NotProvable(f"{type(node).__name__.upper()} is left to Postgres")

    def scalar(self, node: exp.Expr, names: Names) -> Term:
        inner = self.query(node, names)
        if len(inner.kinds) != 1:
            raise NotProvable("a query of several columns as a value")
        return Term(kind=inner.kinds[0], duck=merged("({})", [inner.duck]), heap=None, uses=frozenset({-1}))

    def exists(self, node: exp.Expr, names: Names) -> Term:
        inner = _unwrapped(node)
        if isinstance(inner, exp.Select) and len(inner.expressions) == 1 and isinstance(inner.expressions[0], exp.Star):
            inner = inner.copy()
            inner.set("expressions", [exp.Literal.number(1)])
        return Term(
            kind=BOOL, duck=merged("(EXISTS ({}))", [self.query(inner, names).duck]), heap=None, uses=frozenset({-1})
        )

    def among(self, left: Term, node: exp.Expr, names: Names) -> Term:
        inner = self.query(node, names)
        if len(inner.kinds) != 1 or not left.kind.has_equality or not inner.kinds[0].has_equality:
            raise NotProvable("IN of such a query is left to Postgres")
        if left.kind.is_number and inner.kinds[0].is_number:
            check_meet(left.kind, inner.kinds[0])
        elif left.kind.family != inner.kinds[0].family:
            raise NotProvable("IN of different kinds is left to Postgres")
        meet_collations(left.kind, inner.kinds[0])
        return Term(kind=BOOL, duck=merged("({} IN ({}))", [left.duck, inner.duck]), heap=None, uses=frozenset({-1}))

    def _select(self, node: exp.Select, outer: Names | None, *, top: bool) -> Query:
        scope = Scope(outer)
        source = self.source_of(node, scope)
        core = self.core_of(node, scope, source, top=top)
        if core is None:
            expressions = Expressions(scope, self.reading)
            return self._finished(node, expressions, source.duck, scope)
        if top:
            self.core = core
        expressions = Expressions(Grouped(core, outer), self.reading, core.replaced())
        inner = Fragment(CORE) if top else merged(f"({{}}) AS {core.name}", [core.duck])
        if node.args.get("having") is not None:
            inner = merged("{} WHERE {}", [inner, expressions.condition(node.args["having"].this).duck])
        return self._finished(node, expressions, inner, None)

    def source_of(self, node: exp.Select, scope: Scope) -> Source:
        """FROM and WHERE."""
        return self._where(node, scope, self._from(node, scope))

    def _from(self, node: exp.Select, scope: Scope) -> Fragment:
        if node.args.get("from_") is None:
            raise NotProvable("a query without FROM")
        source = self._item(node.args["from_"].this, scope)
        joins = node.args.get("joins") or []
        sides = {str(join.args.get("side") or "") for join in joins}
        if sides & {"RIGHT", "FULL"} and any(not join.args.get("on") for join in joins):
            raise NotProvable("RIGHT or FULL JOIN beside a comma is left to Postgres")
        for join in joins:
            source = self._join(join, scope, source)
        return source

    def _join(self, join: exp.Expr, scope: Scope, source: Fragment) -> Fragment:
        side, kind, on = str(join.args.get("side") or ""), str(join.args.get("kind") or ""), join.args.get("on")
        if kind not in ("", "INNER", "CROSS", "OUTER"):
            raise NotProvable(f"{kind} JOIN is left to Postgres")
        before = len(scope.relations)
        item = self._item(join.this, scope)
        if side in ("LEFT", "FULL"):
            _mark_nullable(scope.relations[before:])
        if side in ("RIGHT", "FULL"):
            _mark_nullable(scope.relations[:before])
        if on is None:
            if side:
                raise NotProvable("an outer join without a condition")
            return merged("{} CROSS JOIN {}", [source, item])
        expressions = Expressions(scope, self.reading)
        parts = [expressions.condition(part) for part in conjuncts(on)]
        if not side:
            for part in parts:
                scope.narrow(part)
        condition = merged(" AND ".join(["{}"] * len(parts)), [part.duck for part in parts])
        return merged(f"{{}} {side or 'INNER'} JOIN {{}} ON {{}}", [source, item, condition])

    def _item(self, node: exp.Expr, scope: Scope) -> Fragment:
        alias = node.args.get("alias")
        name = fold(alias.this) if alias is not None else None
        if isinstance(node, exp.Table):
            table = fold(node.this) if isinstance(node.this, exp.Identifier) else ""
            if table in self.ctes and not node.args.get("db"):
                return self._derived(self.ctes[table], name or table, scope)
            use = self.open_table(node)
            # Only a table without an alias can be named with its schema.
            scope.relations.append(
                Relation(name or table, use.number, use, {}, schema=use.schema if name is None else None)
            )
            return Fragment(f"t{use.number}")
        if isinstance(node, exp.Subquery) and name is not None:
            return self._derived(self.query(node.this), name, scope)
        raise NotProvable(f"{type(node).__name__.upper()} in FROM is left to Postgres")

    def _derived(self, query: Query, alias: str, scope: Scope) -> Fragment:
        self._relations += 1
        number = self._relations
        columns: dict[str, Term] = {}
        for at, (name, kind) in enumerate(zip(query.names, query.kinds, strict=True)):
            if name is not None and name in columns:
                raise NotProvable("a query within, with two columns of one name")
            if name is not None and name != NAMELESS:
                columns[name] = Term(
                    kind=kind, duck=Fragment(f"r{number}.o{at}"), heap=None, uses=frozenset({-1 - number})
                )
        scope.relations.append(
            Relation(alias, -1 - number, None, columns, is_complete=len(columns) == len(query.names))
        )
        return merged(f"({{}}) AS r{number}", [query.duck])

    def _where(self, node: exp.Select, scope: Scope, tables: Fragment) -> Source:
        if node.args.get("where") is None:
            return Source(tables=tables)
        expressions = Expressions(scope, self.reading)
        parts = tuple(expressions.condition(part) for part in conjuncts(node.args["where"].this))
        for part in parts:
            scope.narrow(part)
        return Source(tables=tables, conditions=parts)

    def core_of(
        self, node: exp.Select, scope: Scope, source: Source, *, top: bool, more: Sequence[exp.Expr] = ()
    ) -> Core | None:
        """The GROUP BY of a SELECT, with further aggregates if asked; `None` when it has none."""
        group = node.args.get("group")
        nodes = aggregates_in(node)
        nodes += [part for part in more if part not in nodes]
        if group is None and not nodes and node.args.get("having") is None:
            return None
        if any(True for part in outputs_of(node) for _ in part.find_all(exp.Window)):
            raise NotProvable("window functions over groups are left to Postgres")
        expressions = Expressions(scope, self.reading)
        group_nodes = tuple(group_node(part, node, scope) for part in (group.expressions if group is not None else ()))
        groups = tuple(expressions.term(part) for part in group_nodes)
        if any(not term.kind.has_equality for term in groups):
            raise NotProvable("GROUP BY floats is left to Postgres")
        kept = [part for part in nodes if not isinstance(call_of(part), exp.Avg)]
        made = tuple(read_aggregate(expressions, part) for part in kept)
        self._relations += 1
        name = CORE if top else f"{CORE}{self._relations}"
        return Core(
            name=name,
            scope=scope,
            source=source,
            groups=groups,
            aggregates=made,
            nodes=tuple(kept),
            group_nodes=group_nodes,
        )

    def _finished(self, node: exp.Select, expressions: Expressions, source: Fragment, stars: Scope | None) -> Query:
        names, terms = self._outputs(node, expressions, stars)
        distinct = node.args.get("distinct") is not None
        if distinct and any(not term.kind.has_equality for term in terms):
            raise NotProvable("DISTINCT of floats is left to Postgres")
        if distinct and node.args["distinct"].args.get("on"):
            raise NotProvable("DISTINCT ON is left to Postgres")
        keys, more = self.keys(node, expressions, names, terms)
        if more and distinct:
            raise NotProvable("DISTINCT with other sort keys")
        listed = [f"{{}} AS o{at}" for at in range(len(terms))] + [f"{{}} AS s{at}" for at in range(len(more))]
        outputs = merged(", ".join(listed), [term.duck for term in (*terms, *more)])
        duck = merged("SELECT {}{} FROM {}", [Fragment("DISTINCT " if distinct else ""), outputs, source])
        tail = self.tail(node, keys)
        if more:
            duck = merged("SELECT {} FROM ({})", [Fragment(", ".join(f"o{at}" for at in range(len(terms)))), duck])
        duck = merged("{}{}", [duck, tail])
        return Query(duck=duck, names=tuple(names), kinds=tuple(term.kind for term in terms))

    def _outputs(
        self, node: exp.Select, expressions: Expressions, stars: Scope | None
    ) -> tuple[list[str | None], list[Term]]:
        names: list[str | None] = []
        terms: list[Term] = []
        for part in node.expressions:
            if isinstance(part, exp.Star):
                if stars is None:
                    raise NotProvable("* over groups")
                for name, term in stars.stars():
                    names.append(name)
                    terms.append(term)
                continue
            names.append(output_name(part))
            terms.append(expressions.term(part.this if isinstance(part, exp.Alias) else part))
        return names, terms

    def keys(
        self, node: exp.Expr, expressions: Expressions | None, names: Sequence[str | None], terms: Sequence[Term]
    ) -> tuple[list[str], list[Term]]:
        """Sort keys by output where they are one, and further terms to sort by."""
        keys: list[str] = []
        more: list[Term] = []
        for part in node.args["order"].expressions if node.args.get("order") is not None else ():
            at = output_place(bare(part.this), names)
            term = terms[at] if at is not None else expressions.term(part.this) if expressions is not None else None
            if term is None or not term.kind.has_order:
                raise NotProvable("an order that depends on a collation is left to Postgres")
            if at is None:
                more.append(term)
            keys.append(direction(part).format(f"o{at}" if at is not None else f"s{len(more) - 1}"))
        return keys, more

    def tail(self, node: exp.Expr, keys: Sequence[str]) -> Fragment:
        parts = [Fragment(" ORDER BY " + ", ".join(keys))] if keys else []
        for word in ("limit", "offset"):
            if node.args.get(word) is not None:
                parts.append(Fragment(f" {word.upper()} {self._count(node.args[word].expression)}"))
        return merged("".join(["{}"] * len(parts)), parts) if parts else Fragment("")

    def _count(self, node: exp.Expr) -> int:
        node = bare(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            return limit_of(str(node.this))
        if isinstance(node, exp.Parameter):
            at = int(str(node.this.this)) - 1
            text = self.setting.parameters[at].text if 0 <= at < len(self.setting.parameters) else None
            if text is not None:
                return limit_of(text)
        raise NotProvable("a LIMIT that is no plain number")

    def _union(self, node: exp.Union, outer: Names | None) -> Query:
        left, right = self.query(node.this, outer), self.query(node.expression, outer)
        if [_shape(kind) for kind in left.kinds] != [_shape(kind) for kind in right.kinds]:
            raise NotProvable("UNION of different kinds is left to Postgres")
        kinds = tuple(_widest(meet_collations(one, two), two) for one, two in zip(left.kinds, right.kinds, strict=True))
        distinct = node.args.get("distinct")
        if distinct and any(not kind.has_equality for kind in kinds):
            raise NotProvable("UNION of floats is left to Postgres")
        word = Fragment("UNION" if distinct else "UNION ALL")
        terms = [Term(kind=kind, duck=Fragment(f"o{at}"), heap=None) for at, kind in enumerate(kinds)]
        keys, _ = self.keys(node, None, left.names, terms)
        duck = merged("SELECT * FROM (({}) {} ({})){}", [left.duck, word, right.duck, self.tail(node, keys)])
        return Query(duck=duck, names=left.names, kinds=kinds)


def _unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Subquery | exp.Paren) and node.args.get("alias") is None:
        node = node.this
    return node


def _mark_nullable(relations: Sequence[Relation]) -> None:
    for relation in relations:
        if relation.use is not None:
            relation.use.nullable = True
            relation.use.conditions.clear()
            relation.use.bounds.clear()


def _shape(kind: Kind) -> tuple[str, int, int]:
    return kind.family, kind.oid, kind.scale


def _widest(one: Kind, two: Kind) -> Kind:
    return replace(one, precision=max(one.precision, two.precision))
