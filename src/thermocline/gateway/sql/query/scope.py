"""What the names of one SELECT mean, and what is used of each table it reads."""

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
    """A column of a table; without a kind it cannot be read exactly, and without a field the lake does not hold it."""

    name: str
    position: int
    sql_type: SqlType | None
    field: LakeField | None

    @property
    def duckdb_name(self) -> str:
        return f"c{self.position}"


@dataclass(slots=True, eq=False)
class TableUsage:
    """One mention of a table: the columns, heap conditions and file bounds that the statement needs of it."""

    number: int
    schema: str
    columns: Mapping[str, SourceColumn]
    wanted: dict[str, SourceColumn] = field(default_factory=dict)
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
    """What one FROM item offers: a use of a table, or the columns of a query within. `number` is what their terms
    use."""

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
    """The FROM clause of one SELECT, within those around it."""

    def __init__(self, outer: NameResolver | None) -> None:
        self.relations: list[Relation] = []
        self.is_narrowed = True
        self._outer = outer

    def column(self, node: exp.Column) -> Term:
        if not isinstance(node.this, exp.Identifier):
            raise NotProvable("a column without a name")
        name = fold_identifier(node.this)
        table, schema = node.args.get("table"), node.args.get("db")
        among = [r for r in self.relations if table is None or r.alias == fold_identifier(table)]
        if schema is not None:
            among = [relation for relation in among if relation.schema == fold_identifier(schema)]
        found = [term for relation in among if (term := relation.column(name)) is not None]
        if len(found) == 1:
            return found[0]
        if not found and not all(relation.is_complete for relation in among):
            raise NotProvable(f"{name} may be a column without a name of its own")
        if not found and self._outer is not None:
            return self._outer.column(node)
        raise NotProvable(f"column {name} is not one of a table that is read here")

    def bound(self, column: tuple[int, str], op: Op, values: tuple[object, ...]) -> tuple[int, Bound] | None:
        for relation in self.relations:
            if relation.use is not None and relation.use.number == column[0]:
                known = relation.use.columns[column[1]].field
                kept = tuple(value for value in values if isinstance(value, BoundValue))
                return (
                    (column[0], Bound(field=known, op=op, values=kept))
                    if known is not None and len(kept) == len(values)
                    else None
                )
        return None

    def is_local(self, relation_numbers: frozenset[int]) -> bool:
        return relation_numbers <= {relation.number for relation in self.relations}

    def stars(self) -> list[tuple[str, Term]]:
        """All columns, in order."""
        if not all(relation.is_complete for relation in self.relations):
            raise NotProvable("* over columns without a name")
        return [(name, term) for r in self.relations for name in r.names() if (term := r.column(name)) is not None]

    def narrow(self, term: Term) -> None:
        """Lets a condition that must hold for every row narrow what is read of the one table it is about.

        `is_narrowed` tells afterwards whether all conditions did.
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
