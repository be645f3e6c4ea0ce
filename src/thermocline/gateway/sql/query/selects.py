"""Compile queries for DuckDB: FROM, WHERE, GROUP BY, ORDER BY, set operations, subqueries.

Every table becomes a named relation `t0`, `t1`, … with the rows of both tiers; the outermost GROUP BY becomes the named
relation `k`, so that Postgres can compute the heap's part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from thermocline.gateway.sql.expressions.aggregates import direction, read_aggregate, read_window
from thermocline.gateway.sql.expressions.constants import parse_limit
from thermocline.gateway.sql.expressions.expressions import CompileContext, ExpressionCompiler, split_conditions
from thermocline.gateway.sql.expressions.functions import FUNCTIONS
from thermocline.gateway.sql.expressions.query_settings import NameResolver, QuerySettings
from thermocline.gateway.sql.expressions.sql_types import BOOL, INT4, SqlType, check_common_decimal, resolve_collation
from thermocline.gateway.sql.expressions.terms import Term
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.query.grouping import (
    GROUPS_NAME,
    UNNAMED,
    FromClause,
    GroupBy,
    GroupedNames,
    aggregate_places,
    aggregates_in,
    call_of,
    find_output,
    find_union_output,
    output_name,
)
from thermocline.gateway.sql.query.scope import Relation, Scope, TableUsage
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier, strip_parentheses
from thermocline.gateway.sql.values import NotProvable

OpenTable = Callable[[exp.Table], TableUsage]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledQuery:
    """A query and its columns."""

    duckdb: Fragment
    names: tuple[str, ...]
    sql_types: tuple[SqlType, ...]


@dataclass(slots=True)
class QueryCompiler:
    """Compiles one statement."""

    setting: QuerySettings
    open_table: OpenTable
    ctes: dict[str, CompiledQuery] = field(default_factory=dict)
    group_by: GroupBy | None = None
    _relations: int = 0
    _is_tested: bool = False

    @property
    def context(self) -> CompileContext:
        return CompileContext(setting=self.setting, queries=self, functions={**FUNCTIONS, exp.Window: read_window})

    def query(self, node: exp.Expr, outer: NameResolver | None = None, *, top: bool = False) -> CompiledQuery:
        """Compile a SELECT or a UNION, with its WITH."""
        node = _strip_subquery(node)
        outer_ctes = dict(self.ctes)
        for cte in node.args["with_"].expressions if node.args.get("with_") else ():
            made = self.query(cte.this, None)
            self.ctes[fold_identifier(cte.args["alias"].this)] = made
        try:
            match node:
                case exp.Select():
                    return self._select(node, outer, top=top)
                case exp.Union():
                    return self._union(node, outer)
        finally:
            self.ctes = outer_ctes
        raise NotProvable(f"{type(node).__name__.upper()} is left to Postgres")

    def scalar(self, node: exp.Expr, names: NameResolver) -> Term:
        inner = self.query(node, names)
        if len(inner.sql_types) != 1:
            raise NotProvable("a query of several columns as a value")
        return Term(
            sql_type=inner.sql_types[0],
            duckdb=fill_template("({})", [inner.duckdb]),
            heap=None,
            relation_numbers=frozenset({-1}),
        )

    def exists(self, node: exp.Expr, names: NameResolver) -> Term:
        inner = _strip_subquery(node)
        self._is_tested = (
            isinstance(inner, exp.Select)
            and inner.args.get("with_") is None
            and all(isinstance(part, exp.Column) for part in map(strip_parentheses, inner.expressions))
        )
        return Term(
            sql_type=BOOL,
            duckdb=fill_template("(EXISTS ({}))", [self.query(inner, names).duckdb]),
            heap=None,
            relation_numbers=frozenset({-1}),
        )

    def in_subquery(self, left: Term, node: exp.Expr, names: NameResolver) -> Term:
        inner = self.query(node, names)
        if len(inner.sql_types) != 1 or not left.sql_type.has_equality or not inner.sql_types[0].has_equality:
            raise NotProvable("IN of such a query is left to Postgres")
        if left.sql_type.is_number and inner.sql_types[0].is_number:
            check_common_decimal(left.sql_type, inner.sql_types[0])
        elif left.sql_type.family != inner.sql_types[0].family:
            raise NotProvable("IN of different kinds is left to Postgres")
        resolve_collation(left.sql_type, inner.sql_types[0])
        return Term(
            sql_type=BOOL,
            duckdb=fill_template("({} IN ({}))", [left.duckdb, inner.duckdb]),
            heap=None,
            relation_numbers=frozenset({-1}),
        )

    def _select(self, node: exp.Select, outer: NameResolver | None, *, top: bool) -> CompiledQuery:
        scope = Scope(outer)
        is_tested, self._is_tested = self._is_tested, False
        source = self.compile_from(node, scope)
        if is_tested and not any(node.args.get(word) for word in ("group", "having", "distinct", "limit", "offset")):
            return _existence(node, scope, source)
        group_by = self.compile_group_by(node, scope, source, top=top)
        if group_by is None:
            expressions = ExpressionCompiler(scope, self.context)
            return self._compile_outputs(node, expressions, source.duckdb)
        if top:
            self.group_by = group_by
        expressions = ExpressionCompiler(GroupedNames(group_by, outer), self.context, group_by.grouped_terms())
        inner = Fragment(GROUPS_NAME) if top else fill_template(f"({{}}) AS {group_by.name}", [group_by.duckdb])
        if node.args.get("having") is not None:
            inner = fill_template("{} WHERE {}", [inner, expressions.condition(node.args["having"].this).duckdb])
        return self._compile_outputs(node, expressions, inner)

    def compile_from(self, node: exp.Select, scope: Scope) -> FromClause:
        """FROM and WHERE."""
        return self._where(node, scope, self._from(node, scope))

    def _from(self, node: exp.Select, scope: Scope) -> Fragment:
        if node.args.get("from_") is None:
            raise NotProvable("a query without FROM")
        source = self._item(node.args["from_"].this, scope)
        for join in node.args.get("joins") or ():
            source = self._join(join, scope, source, first=0)
        return source

    def _join(self, join: exp.Expr, scope: Scope, source: Fragment, *, first: int) -> Fragment:
        """Join an item to the relations of the scope from `first` on."""
        side, join_kind = str(join.args.get("side") or ""), str(join.args.get("kind") or "")
        on = join.args.get("on")
        if join_kind not in ("", "INNER", "CROSS", "OUTER"):
            raise NotProvable(f"{join_kind} JOIN is left to Postgres")
        before = len(scope.relations)
        item = self._item(join.this, scope)
        if side in ("LEFT", "FULL"):
            _mark_nullable(scope.relations[before:])
        if side in ("RIGHT", "FULL"):
            _mark_nullable(scope.relations[first:before])
        if on is None:
            if side:
                raise NotProvable("an outer join without a condition")
            return fill_template("{} CROSS JOIN {}", [source, item])
        expressions = ExpressionCompiler(scope, self.context)
        parts = [expressions.condition(part) for part in split_conditions(on)]
        if not side:
            for part in parts:
                scope.narrow(part)
        condition = fill_template(" AND ".join(["{}"] * len(parts)), [part.duckdb for part in parts])
        return fill_template(f"{{}} {side or 'INNER'} JOIN {{}} ON {{}}", [source, item, condition])

    def _item(self, node: exp.Expr, scope: Scope) -> Fragment:
        """An item of FROM: a table, a query, or joins in parentheses."""
        first = len(scope.relations)
        if isinstance(node, exp.Subquery) and node.args.get("alias") is None and _is_item(node.this):
            source = fill_template("({})", [self._item(node.this, scope)])
        else:
            source = self._relation(node, scope)
        for join in node.args.get("joins") or ():
            source = self._join(join, scope, source, first=first)
        return source

    def _relation(self, node: exp.Expr, scope: Scope) -> Fragment:
        alias = node.args.get("alias")
        name = fold_identifier(alias.this) if alias is not None else None
        if isinstance(node, exp.Table):
            table = fold_identifier(node.this) if isinstance(node.this, exp.Identifier) else ""
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

    def _derived(self, query: CompiledQuery, alias: str, scope: Scope) -> Fragment:
        self._relations += 1
        number = self._relations
        columns: dict[str, Term] = {}
        for at, (name, sql_type) in enumerate(zip(query.names, query.sql_types, strict=True)):
            if name in columns:
                raise NotProvable("a query within, with two columns of one name")
            if name != UNNAMED:
                columns[name] = Term(
                    sql_type=sql_type,
                    duckdb=Fragment(f"r{number}.o{at}"),
                    heap=None,
                    relation_numbers=frozenset({-1 - number}),
                )
        scope.relations.append(
            Relation(alias, -1 - number, None, columns, is_complete=len(columns) == len(query.names))
        )
        return fill_template(f"({{}}) AS r{number}", [query.duckdb])

    def _where(self, node: exp.Select, scope: Scope, tables: Fragment) -> FromClause:
        if node.args.get("where") is None:
            return FromClause(tables=tables)
        expressions = ExpressionCompiler(scope, self.context)
        parts = tuple(expressions.condition(part) for part in split_conditions(node.args["where"].this))
        for part in parts:
            scope.narrow(part)
        return FromClause(tables=tables, conditions=parts)

    def compile_group_by(
        self, node: exp.Select, scope: Scope, source: FromClause, *, top: bool, more: Sequence[exp.Expr] = ()
    ) -> GroupBy | None:
        """Compile the GROUP BY of a SELECT, with the aggregates `more` added; `None` when it has none."""
        group = node.args.get("group")
        nodes = aggregates_in(node)
        nodes += [part for part in more if part not in nodes]
        if group is None and not nodes and node.args.get("having") is None:
            return None
        if any(True for part in aggregate_places(node) for _ in part.find_all(exp.Window)):
            raise NotProvable("window functions over groups are left to Postgres")
        expressions = ExpressionCompiler(scope, self.context)
        group_nodes = tuple(strip_parentheses(part) for part in (group.expressions if group is not None else ()))
        groups = tuple(expressions.term(part) for part in group_nodes)
        if any(not term.sql_type.has_equality for term in groups):
            raise NotProvable("GROUP BY floats is left to Postgres")
        kept = [part for part in nodes if not isinstance(call_of(part), exp.Avg)]
        made = tuple(read_aggregate(expressions, part) for part in kept)
        self._relations += 1
        name = GROUPS_NAME if top else f"{GROUPS_NAME}{self._relations}"
        return GroupBy(
            name=name,
            scope=scope,
            source=source,
            groups=groups,
            aggregates=made,
            nodes=tuple(kept),
            group_nodes=group_nodes,
        )

    def _compile_outputs(self, node: exp.Select, expressions: ExpressionCompiler, source: Fragment) -> CompiledQuery:
        names = [output_name(part) for part in node.expressions]
        terms = [expressions.term(part.this if isinstance(part, exp.Alias) else part) for part in node.expressions]
        distinct = node.args.get("distinct") is not None
        if distinct and any(not term.sql_type.has_equality for term in terms):
            raise NotProvable("DISTINCT of floats is left to Postgres")
        if distinct and node.args["distinct"].args.get("on"):
            raise NotProvable("DISTINCT ON is left to Postgres")
        keys, more = self._sort_keys(node, expressions, terms)
        if more and distinct:
            raise NotProvable("DISTINCT with other sort keys")
        select_list = [f"{{}} AS o{at}" for at in range(len(terms))] + [f"{{}} AS s{at}" for at in range(len(more))]
        outputs = fill_template(", ".join(select_list), [term.duckdb for term in (*terms, *more)])
        duckdb = fill_template("SELECT {}{} FROM {}", [Fragment("DISTINCT " if distinct else ""), outputs, source])
        tail = self.tail(node, keys)
        if more:
            duckdb = fill_template(
                "SELECT {} FROM ({})", [Fragment(", ".join(f"o{at}" for at in range(len(terms)))), duckdb]
            )
        duckdb = fill_template("{}{}", [duckdb, tail])
        return CompiledQuery(duckdb=duckdb, names=tuple(names), sql_types=tuple(term.sql_type for term in terms))

    def _sort_keys(
        self, node: exp.Select, expressions: ExpressionCompiler, terms: Sequence[Term]
    ) -> tuple[list[str], list[Term]]:
        """Sort keys: the number of an output where the key is one, else a further term."""
        keys: list[str] = []
        more: list[Term] = []
        for part in node.args["order"].expressions if node.args.get("order") is not None else ():
            at = find_output(part.this, node.expressions)
            term = terms[at] if at is not None else expressions.term(part.this)
            check_sortable(term.sql_type)
            if at is None:
                more.append(term)
            keys.append(direction(part).format(f"o{at}" if at is not None else f"s{len(more) - 1}"))
        return keys, more

    def tail(self, node: exp.Expr, keys: Sequence[str]) -> Fragment:
        parts = [Fragment(" ORDER BY " + ", ".join(keys))] if keys else []
        for word in ("limit", "offset"):
            if node.args.get(word) is not None:
                parts.append(Fragment(f" {word.upper()} {self._count(node.args[word].expression)}"))
        return fill_template("".join(["{}"] * len(parts)), parts) if parts else Fragment("")

    def _count(self, node: exp.Expr) -> int:
        node = strip_parentheses(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            return parse_limit(str(node.this))
        if isinstance(node, exp.Parameter):
            at = int(str(node.this.this)) - 1
            text = self.setting.parameters[at].text if 0 <= at < len(self.setting.parameters) else None
            if text is not None:
                return parse_limit(text)
        raise NotProvable("a LIMIT that is no plain number")

    def _union(self, node: exp.Union, outer: NameResolver | None) -> CompiledQuery:
        left, right = self.query(node.this, outer), self.query(node.expression, outer)
        if [_shape(sql_type) for sql_type in left.sql_types] != [_shape(sql_type) for sql_type in right.sql_types]:
            raise NotProvable("UNION of different kinds is left to Postgres")
        sql_types = tuple(
            _wider_type(resolve_collation(one, two), two)
            for one, two in zip(left.sql_types, right.sql_types, strict=True)
        )
        distinct = node.args.get("distinct")
        if distinct and any(not sql_type.has_equality for sql_type in sql_types):
            raise NotProvable("UNION of floats is left to Postgres")
        word = Fragment("UNION" if distinct else "UNION ALL")
        keys: list[str] = []
        for part in node.args["order"].expressions if node.args.get("order") is not None else ():
            at = find_union_output(part.this, len(sql_types))
            check_sortable(sql_types[at])
            keys.append(direction(part).format(f"o{at}"))
        duckdb = fill_template(
            "SELECT * FROM (({}) {} ({})){}", [left.duckdb, word, right.duckdb, self.tail(node, keys)]
        )
        return CompiledQuery(duckdb=duckdb, names=left.names, sql_types=sql_types)


def check_sortable(sql_type: SqlType) -> None:
    if not sql_type.has_order:
        raise NotProvable("an order that depends on a collation is left to Postgres")


def _is_item(node: exp.Expr) -> bool:
    """Whether the node is an item of FROM in parentheses, and no query."""
    return isinstance(node, exp.Table) or (
        isinstance(node, exp.Subquery) and (node.args.get("joins") is not None or _is_item(node.this))
    )


def _existence(node: exp.Select, scope: Scope, source: FromClause) -> CompiledQuery:
    """Whether rows exist, of a query for EXISTS: its columns are not read, and the role must be allowed to."""
    for part in node.expressions:
        scope.ask(strip_parentheses(part))
    return CompiledQuery(
        duckdb=fill_template("SELECT 1 AS o0 FROM {}", [source.duckdb]), names=(UNNAMED,), sql_types=(INT4,)
    )


def _strip_subquery(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Subquery | exp.Paren) and node.args.get("alias") is None:
        node = node.this
    return node


def _mark_nullable(relations: Sequence[Relation]) -> None:
    for relation in relations:
        if relation.use is not None:
            relation.use.nullable = True
            relation.use.conditions.clear()
            relation.use.bounds.clear()


def _shape(sql_type: SqlType) -> tuple[str, int, int]:
    return sql_type.family, sql_type.oid, sql_type.scale


def _wider_type(one: SqlType, two: SqlType) -> SqlType:
    return replace(one, precision=max(one.precision, two.precision))
