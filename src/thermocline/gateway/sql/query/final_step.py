"""The final step of statements that only Postgres computes exactly: averages, divisions, orders under other collations.

DuckDB computes the groups. They are sent to Postgres as arrays, on the client's own connection, and the rest of the
statement runs over them there: with the role, time zone and collations of the session, in the client's result format.
The rest is the canonical text, in which grouped expressions and aggregates are replaced by columns of the groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql
from sqlglot import exp

from thermocline.gateway.sql.expressions.aggregates import direction
from thermocline.gateway.sql.expressions.expressions import ExpressionCompiler
from thermocline.gateway.sql.expressions.sql_types import SqlType, sql_type_of_oid
from thermocline.gateway.sql.fragments import Fragment, fill_template
from thermocline.gateway.sql.query.grouping import (
    GROUPS_NAME,
    GroupBy,
    GroupedNames,
    aggregates_in,
    call_of,
    find_output,
)
from thermocline.gateway.sql.query.scope import Scope
from thermocline.gateway.sql.query.selects import CompiledQuery, QueryCompiler
from thermocline.gateway.sql.syntax.parsing import Span, find_span, source_text
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier
from thermocline.gateway.sql.values import NotProvable


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalStep:
    """The final step: a statement for Postgres, and the types of its array parameters."""

    sql: str
    sql_types: tuple[SqlType, ...]


def plan_final_step(compiler: QueryCompiler, node: exp.Expr) -> tuple[CompiledQuery, FinalStep]:
    """Plan the groups that DuckDB computes, and the statement that Postgres runs over them."""
    if not isinstance(node, exp.Select) or node.args.get("distinct") is not None:
        raise NotProvable("only the end of a GROUP BY is left to Postgres")
    scope = Scope(None)
    for cte in node.args["with_"].expressions if node.args.get("with_") else ():
        compiler.ctes[fold_identifier(cte.args["alias"].this)] = compiler.query(cte.this)
    source = compiler.compile_from(node, scope)
    averages = [part for part in aggregates_in(node) if isinstance(call_of(part), exp.Avg)]
    more = [call for part in averages for call in _parts_of_average(part)]
    group_by = compiler.compile_group_by(node, scope, source, top=True, more=more)
    if group_by is None:
        raise NotProvable("only the end of a GROUP BY is left to Postgres")
    if any(sql_type.family == "text" and not sql_type.is_default for sql_type in group_by.sql_types):
        raise NotProvable("text under a collation of its own is left to Postgres")
    compiler.group_by = group_by
    query, having, limited = _reduce_groups(compiler, node, group_by)
    columns = ", ".join(group_by.names)
    arrays = ", ".join(
        f"pg_catalog.unnest(${at + 1}::pg_catalog.{sql_type.family}[])"
        for at, sql_type in enumerate(group_by.sql_types)
    )
    rest = _FinalStepRenderer(compiler, group_by).render(node, having=having, limited=limited)
    text = f"WITH {GROUPS_NAME}({columns}) AS (SELECT * FROM ROWS FROM ({arrays})) {rest}"  # noqa: S608  # our words and the statement's own
    return query, FinalStep(sql=text, sql_types=group_by.sql_types)


def _reduce_groups(compiler: QueryCompiler, node: exp.Select, group_by: GroupBy) -> tuple[CompiledQuery, bool, bool]:
    """The groups, reduced by HAVING, ORDER BY and LIMIT where DuckDB can apply them; whether Postgres has to apply
    HAVING, and whether LIMIT was applied."""
    expressions = ExpressionCompiler(GroupedNames(group_by, None), compiler.context, group_by.grouped_terms())
    source, having, tail = Fragment(GROUPS_NAME), False, Fragment("")
    if node.args.get("having") is not None:
        try:
            source = fill_template("{} WHERE {}", [source, expressions.condition(node.args["having"].this).duckdb])
        except NotProvable:
            having = True
    limited = False
    if (
        not having
        and node.args.get("limit") is not None
        and (keys := _sort_keys(compiler, node, expressions)) is not None
    ):
        tail, limited = fill_template(" ORDER BY {}{}", [keys, compiler.tail(node, ())]), True
    select_list = Fragment(", ".join(f"{GROUPS_NAME}.{name} AS o{at}" for at, name in enumerate(group_by.names)))
    duckdb = fill_template("SELECT {} FROM {}{}", [select_list, source, tail])
    return CompiledQuery(duckdb=duckdb, names=group_by.names, sql_types=group_by.sql_types), having, limited


def _sort_keys(compiler: QueryCompiler, node: exp.Select, expressions: ExpressionCompiler) -> Fragment | None:
    """The statement's sort keys, or `None` when DuckDB cannot sort by them."""
    keys: list[Fragment] = []
    for part in node.args["order"].expressions if node.args.get("order") is not None else ():
        try:
            term = expressions.term(part.this)
        except NotProvable:
            return None
        if not term.sql_type.has_order:
            return None
        nulls = "FIRST" if part.args.get("nulls_first") else "LAST"
        keys.append(fill_template(f"{{}} {'DESC' if part.args.get('desc') else 'ASC'} NULLS {nulls}", [term.duckdb]))
    return fill_template(", ".join(["{}"] * len(keys)), keys) if keys else None


class _FinalStepRenderer:
    """Renders the statement over the groups."""

    def __init__(self, compiler: QueryCompiler, group_by: GroupBy) -> None:
        self._compiler = compiler
        self._group_by = group_by
        self._grouped = GroupedNames(group_by, None)
        self._group_columns = list(zip((*group_by.group_nodes, *group_by.nodes), group_by.names, strict=True))

    def render(self, node: exp.Select, *, having: bool, limited: bool) -> str:
        outputs = [self._over_groups(part.this if isinstance(part, exp.Alias) else part) for part in node.expressions]
        words = [f"SELECT {', '.join(outputs)} FROM {GROUPS_NAME}"]  # noqa: S608  # the statement's own words
        if having:
            words.append(f"WHERE {self._over_groups(node.args['having'].this)}")
        if node.args.get("order") is not None:
            words.append("ORDER BY " + ", ".join(self._key(part, node) for part in node.args["order"].expressions))
        for word in ("limit", "offset"):
            if node.args.get(word) is not None and not limited:
                words.append(f"{word.upper()} {self._over_groups(node.args[word].expression)}")
        return " ".join(words)

    def _key(self, part: exp.Expr, node: exp.Select) -> str:
        at = find_output(part.this, node.expressions)
        return direction(part).replace("{}", str(at + 1) if at is not None else self._over_groups(part.this))

    def _over_groups(self, node: exp.Expr) -> str:
        """The expression in the canonical text, with columns of the groups in it."""
        text = self._compiler.setting.sql
        source_text(text, node)
        at, end = _span(node)
        words = []
        for (start, stop), replacement in sorted(self._replacements(node)):
            words += [text[at:start], replacement]
            at = stop
        return "".join([*words, text[at:end]])

    def _replacements(self, node: exp.Expr) -> list[tuple[Span, str]]:
        if (replacement := self._replace(node)) is not None:
            source_text(self._compiler.setting.sql, node)
            return [(_span(node), replacement)]
        return [found for child in node.iter_expressions() for found in self._replacements(child)]

    def _replace(self, node: exp.Expr) -> str | None:
        for group_node, name in self._group_columns:
            if node == group_node:
                return f"{GROUPS_NAME}.{name}"
        if isinstance(call_of(node), exp.Avg):
            return self._average(node)
        if isinstance(node, exp.Column):
            return f"{GROUPS_NAME}.{self._grouped.column(node).duckdb.text.partition('.')[2]}"
        if isinstance(node, exp.Parameter):
            return self._parameter(node)
        if isinstance(node, exp.Select | exp.Subquery | exp.Exists):
            raise NotProvable("a query within the end of a GROUP BY")
        return None

    def _average(self, node: exp.Expr) -> str:
        total, count = (
            f"{GROUPS_NAME}.{self._group_by.names[self._aggregate_index(part)]}" for part in _parts_of_average(node)
        )
        return f"(CASE WHEN {count} > 0 THEN {total}::pg_catalog.numeric / {count} END)"

    def _aggregate_index(self, node: exp.Expr) -> int:
        return len(self._group_by.groups) + self._group_by.nodes.index(node)

    def _parameter(self, node: exp.Parameter) -> str:
        at = int(str(node.this.this)) - 1
        parameter = self._compiler.setting.parameters[at]
        sql_type = sql_type_of_oid(parameter.oid)
        if sql_type is None or parameter.text is None:
            raise NotProvable("a parameter at the end of a GROUP BY")
        return f"({sql.Literal(parameter.text).as_string(None)}::pg_catalog.{sql_type.family})"


def _span(node: exp.Expr) -> Span:
    span = find_span(node)
    if span is None:
        raise NotProvable("a part of the statement without a place in its text")
    return span


def _parts_of_average(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The sum and the count of an average."""
    call = call_of(node)
    total, count = exp.Sum(this=call.this.copy()), exp.Count(this=call.this.copy(), big_int=True)
    if not isinstance(node, exp.Filter):
        return total, count
    condition = node.args["expression"]
    return tuple(exp.Filter(this=part, expression=condition.copy()) for part in (total, count))  # type: ignore[return-value]
