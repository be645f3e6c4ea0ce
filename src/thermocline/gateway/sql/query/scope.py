"""Resolve the names of one SELECT, and record what it uses of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import sql
from sqlglot import exp

from thermocline.gateway.sql.expressions.query_settings import NameResolver
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.expressions.terms import Term
from thermocline.gateway.sql.fragments import Fragment
from thermocline.gateway.sql.syntax.syntax_tree import fold_identifier
from thermocline.gateway.sql.values import NotProvable
from thermocline.lake.read.scan import Bound, BoundValue, Op
from thermocline.lake.read.table_metadata import LakeField


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of a table. Without `sql_type` it cannot be read exactly; without `field` the lake does not have it."""

    name: str
    position: int
    sql_type: SqlType | None
    field: LakeField | None

    @property
    def duckdb_name(self) -> str:
        return f"c{self.position}"


@dataclass(slots=True, eq=False)
class TableUsage:
    """One use of a table in FROM: the columns, heap conditions and file bounds that the statement needs.

    `asked` are columns that the statement names and does not read.
    """

    number: int
    schema: str
    columns: Mapping[str, SourceColumn]
    wanted: dict[str, SourceColumn] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    conditions: list[sql.Composable] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    nullable: bool = False

    def column(self, name: str) -> Term:
        column = self.columns[name]
        if column.sql_type is None:
            raise NotProvable(f"the type of column {name} is left to Postgres")
        self.wanted[name] = column
        return Term(
            sql_type=column.sql_type,
            duckdb=Fragment(f"t{self.number}.{column.duckdb_name}"),
            heap=sql.Identifier("h", name),
            relation_numbers=frozenset({self.number}),
            column=(self.number, name),
        )


@dataclass(frozen=True, slots=True)
class Relation:
    """One FROM item: a table or a subquery. `number` identifies it in `Term.relation_numbers`."""

    alias: str
    number: int
    use: TableUsage | None
    columns: Mapping[str, Term]
    is_complete: bool = True
    schema: str | None = None

    def names(self) -> Sequence[str]:
        return list(self.use.columns if self.use is not None else self.columns)

    def column(self, name: str) -> Term | None:
        if self.use is not None:
            return self.use.column(name) if name in self.use.columns else None
        return self.columns.get(name)


class Scope:
    """The FROM clause of one SELECT; names that it lacks are resolved in the outer query."""

    def __init__(self, outer: NameResolver | None) -> None:
        self.relations: list[Relation] = []
        self.is_narrowed = True
        self._outer = outer

    def column(self, node: exp.Column) -> Term:
        if not isinstance(node.this, exp.Identifier):
            raise NotProvable("a column without a name")
        name = fold_identifier(node.this)
        table, schema = node.args.get("table"), node.args.get("db")
        relations = [r for r in self.relations if table is None or r.alias == fold_identifier(table)]
        if schema is not None:
            relations = [relation for relation in relations if relation.schema == fold_identifier(schema)]
        found = [term for relation in relations if (term := relation.column(name)) is not None]
        if len(found) == 1:
            return found[0]
        if not found and not all(relation.is_complete for relation in relations):
            raise NotProvable(f"{name} may be a column without a name of its own")
        if not found and self._outer is not None:
            return self._outer.column(node)
        raise NotProvable(f"column {name} is not one of a table that is read here")

    def bound(self, column: tuple[int, str], op: Op, values: tuple[object, ...]) -> tuple[int, Bound] | None:
        for relation in self.relations:
            if relation.use is not None and relation.use.number == column[0]:
                lake_field = relation.use.columns[column[1]].field
                kept = tuple(value for value in values if isinstance(value, BoundValue))
                return (
                    (column[0], Bound(field=lake_field, op=op, values=kept))
                    if lake_field is not None and len(kept) == len(values)
                    else None
                )
        return None

    def is_local(self, relation_numbers: frozenset[int]) -> bool:
        return relation_numbers <= {relation.number for relation in self.relations}

    def ask(self, node: exp.Expr) -> None:
        """Record a column that is named and not read."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise NotProvable("a column without a name")
        table, name = node.args.get("table"), fold_identifier(node.this)
        found = [r for r in self.relations if table is not None and r.alias == fold_identifier(table)]
        if len(found) != 1 or name not in found[0].names():
            raise NotProvable(f"column {name} is not one of a table that is read here")
        if found[0].use is not None:
            found[0].use.asked.add(name)

    def narrow(self, term: Term) -> None:
        """Use a conjunct about a single table to read fewer of its rows.

        `is_narrowed` stays true while all conjuncts could be used.
        """
        own = {relation.use.number: relation.use for relation in self.relations if relation.use is not None}
        (number,) = term.relation_numbers if len(term.relation_numbers) == 1 else (None,)
        use = own.get(number) if number is not None else None
        if use is None or use.nullable or term.heap is None:
            self.is_narrowed = False
        if use is None or use.nullable:
            return
        if term.heap is not None:
            use.conditions.append(term.heap)
        if term.bound is not None and term.bound[0] == number:
            use.bounds.append(term.bound[1])
