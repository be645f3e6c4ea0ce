"""Expressions of a wanted type, out of Postgres' catalogs and of the constructs that have a grammar of their own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from tests.gateway.fuzz.catalog import Catalog, Signature
from tests.gateway.fuzz.pieces import Argument, Part, Piece, joined
from tests.gateway.fuzz.values import BARE_NUMBERS, VALUES, quoted

T = TypeVar("T")

Breadth = Literal["core", "favoured", "wide"]
"""How much of SQL a statement may use: what DuckDB answers today, what lies around that, or all of the catalogs."""

CORE_TYPES = ("int8", "int4", "int2", "numeric", "numeric", "text", "text", "bool", "date", "timestamp", "timestamptz")
CORE_FUNCTIONS = frozenset({"abs", "length", "left", "right", "substr", "round", "date_trunc", "char_length"})
CORE_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max", "bool_and", "bool_or"})
CORE_OPERATORS = frozenset({"+", "-", "*", "=", "<>", "<", "<=", ">", ">=", "||"})
FAVOURED_TYPES = (
    *("int8", "int4", "int2", "numeric", "text", "varchar", "bool", "date", "timestamp", "timestamptz", "time"),
    *("float8", "float4", "uuid", "bytea"),
)
FAVOURED_FUNCTIONS = frozenset(
    {
        *("abs", "length", "left", "right", "substr", "substring", "round", "date_trunc", "mod", "lower", "upper"),
        *("char_length", "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every", "ceil", "floor", "trunc"),
        *("strpos", "starts_with", "sign", "ltrim", "rtrim", "btrim", "replace", "concat", "date_part", "octet_length"),
    }
)
FAVOURED_OPERATORS = CORE_OPERATORS | {"/", "%", "~~", "!~~", "&", "|"}
COMPARABLE = (*FAVOURED_TYPES, "interval", "inet", "jsonb")
FIELDS = (
    *("year", "month", "day", "hour", "minute", "second", "quarter", "week", "dow", "isodow", "doy", "epoch"),
    *("century", "decade", "isoyear", "millennium", "julian", "microseconds", "timezone"),
)
SPECIAL = frozenset({"bool", "text", "varchar", "numeric", "float8", "timestamptz", "timestamp"})
SQL_NAMES = {"bpchar": "bpchar", "char": '"char"', "bit": "bit(1)", "varbit": "varbit", "time": "time", "name": "name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column in scope, as it is written."""

    sql: str
    kind: str


class Expressions:
    """Makes expressions over the columns it is given. Wide ones take every signature of the catalogs as equally
    likely."""

    def __init__(
        self,
        chance: random.Random,
        catalog: Catalog,
        binary_form: Callable[[str, str], bytes | None],
        *,
        breadth: Breadth,
        parameters: bool,
    ) -> None:
        self.chance = chance
        self.catalog = catalog
        self.breadth = breadth
        self.wide, self.core = breadth == "wide", breadth == "core"
        self._binary_form = binary_form
        self._parameters = parameters
        self.subquery: Callable[[str, int], Piece] | None = None

    def pick(self, among: Sequence[T]) -> T:
        return self.chance.choice(among)

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def type(self, *, comparable: bool = False) -> str:
        """A type, of those that DuckDB may hold unless wide."""
        if self.core and self.maybe(0.9):
            return self.pick(CORE_TYPES)
        if not self.wide or self.maybe(0.5):
            return self.pick(FAVOURED_TYPES)
        return self.pick(COMPARABLE if comparable else tuple(VALUES))

    def make(self, columns: Sequence[Column], kind: str, depth: int) -> Piece:
        """An expression of the type."""
        roll = self.chance.random()
        if depth <= 0 or roll < (0.45 if self.core else 0.25):
            return self._leaf(columns, kind)
        if roll < (0.65 if self.core else 0.5):
            return self._operation(columns, kind, depth)
        if roll < (0.75 if self.core else 0.68):
            return self._call(columns, kind, depth)
        if roll < (0.78 if self.core else 0.76):
            return self._cast(columns, kind, depth)
        if self.core and kind == "bool":
            return self._predicate(columns, depth)
        if roll < 0.92 and not self.core and kind in SPECIAL:
            return self._special(columns, kind, depth)
        return self._conditional(columns, kind, depth)

    def condition(self, columns: Sequence[Column], depth: int) -> Piece:
        """A boolean: mostly a comparison of a column, as people write them."""
        roll = self.chance.random()
        if roll < 0.45:
            column = self.pick(columns)
            sign = self.pick(("=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"))
            other = self.literal(column.kind) if self.maybe(0.7) else self.make(columns, column.kind, depth - 1)
            return self._expression("bool", ("(", self._column_piece(column), f" {sign} ", other, ")"), "true")
        if roll < 0.6 and depth > 0:
            word = self.pick((" and ", " or "))
            parts = ("(", self.condition(columns, depth - 1), word, self.condition(columns, depth - 1), ")")
            return self._expression("bool", parts, "true")
        if roll < 0.65 and depth > 0:
            return self._expression("bool", ("not (", self.condition(columns, depth - 1), ")"), "true")
        return self.make(columns, "bool", depth)

    def literal(self, kind: str) -> Piece:
        """A constant or a parameter."""
        value = self.pick(VALUES[kind][:4] if self.core and self.maybe(0.8) else VALUES[kind])
        simplest = f"'{VALUES[kind][0]}'::{sql_name(kind)}"
        if self._parameters and self.maybe(0.35):
            return self._expression(kind, self._parameter(kind, value), simplest)
        bare = BARE_NUMBERS.get(kind)
        if bare and self.maybe(0.85 if self.core else 0.5):
            sign = self.pick(("", "", "", "- ", "" if self.core else "+"))
            return self._expression(kind, (f"{sign}{self.pick(bare[:4] if self.core else bare)}",), simplest)
        if kind == "bool" and self.maybe(0.5):
            return self._expression(kind, (self.pick(("true", "false")),), simplest)
        if self.maybe(0.06):
            return self._expression(kind, (self.pick(("null", f"null::{sql_name(kind)}")),), simplest)
        odd = not self.core or self.maybe(0.1)
        string = quoted(self.chance, value) if odd else "'" + value.replace("'", "''") + "'"
        return self._expression(kind, (self._written(kind, string) if odd else string,), simplest)

    def _written(self, kind: str, string: str) -> str:
        name = sql_name(kind)
        roll = self.chance.random()
        if roll < 0.45:
            return string
        if roll < 0.8 or kind.startswith("_") or string.startswith(("E", "U", "$")):
            return f"{string}::{name}"
        return f"cast({string} as {name})" if roll < 0.9 else f"{name} {string}"

    def _parameter(self, kind: str, value: str) -> tuple[Part, ...]:
        oid = self.catalog.type_oids[kind]
        if self.maybe(0.05):
            return Argument(type_oid=oid, data=None), ""
        if self.maybe(0.5) and (data := self._binary_form(kind, value)) is not None:
            argument = Argument(type_oid=oid, data=data, is_binary=True)
        else:
            argument = Argument(type_oid=oid if self.maybe(0.6) else 0, data=value.encode())
        return (argument, f"::{sql_name(kind)}" if self.maybe(0.3) else "")

    def _leaf(self, columns: Sequence[Column], kind: str) -> Piece:
        found = [column for column in columns if column.kind == kind]
        if found and self.maybe(0.95 if self.core else 0.75):
            return self._column_piece(self.pick(found))
        return self.literal(kind)

    def _column_piece(self, column: Column) -> Piece:
        return Piece(parts=(column.sql,), kind=column.kind, simplest=column.sql)

    def _expression(self, kind: str, parts: tuple[Part, ...], simplest: str = "") -> Piece:
        return Piece(parts=parts, kind=kind, simplest=simplest or f"'{VALUES[kind][0]}'::{sql_name(kind)}")

    def favoured(self, found: Sequence[Signature], names: frozenset[str]) -> Sequence[Signature]:
        """The signatures to choose from."""
        if self.wide:
            return found
        types = CORE_TYPES if self.core else FAVOURED_TYPES
        return [one for one in found if one.name in names and set(one.arguments) <= set(types)]

    def _operation(self, columns: Sequence[Column], kind: str, depth: int) -> Piece:
        found = self.favoured(self.catalog.operators.get(kind, ()), CORE_OPERATORS if self.core else FAVOURED_OPERATORS)
        if not found:
            return self._leaf(columns, kind)
        one = self.pick(found)
        sign = f"operator(pg_catalog.{one.name})" if self.maybe(0.03) and not self.core else one.name
        operands = [self.make(columns, argument, depth - 1) for argument in one.arguments]
        if len(operands) == 1:
            return self._expression(kind, (f"({sign} ", operands[0], ")"))
        return self._expression(kind, ("(", operands[0], f" {sign} ", operands[1], ")"))

    def _call(self, columns: Sequence[Column], kind: str, depth: int) -> Piece:
        found = self.favoured(self.catalog.functions.get(kind, ()), CORE_FUNCTIONS if self.core else FAVOURED_FUNCTIONS)
        if not found:
            return self._leaf(columns, kind)
        return self.call(columns, self.pick(found), depth)

    def call(self, columns: Sequence[Column], one: Signature, depth: int, *, word: str = "") -> Piece:
        """A function with arguments of its types."""
        name = function_name(one.name)
        if not self.core and self.maybe(0.08):
            name = f"pg_catalog.{name}"
        if not one.arguments:
            return self._expression(one.result, (f"{name}({'*' if one.name == 'count' else ''})",))
        arguments = [self._argument(columns, one, at, depth) for at in range(len(one.arguments))]
        separated: tuple[Part, ...] = tuple(part for argument in arguments for part in (", ", argument))
        return self._expression(one.result, (f"{name}({word}", *separated[1:], ")"))

    def _argument(self, columns: Sequence[Column], one: Signature, at: int, depth: int) -> Piece:
        kind = one.arguments[at]
        if kind == "text" and at == 0 and one.name in ("date_trunc", "date_part", "extract"):
            return self._expression("text", (f"'{self.pick(FIELDS[:8] if self.core else FIELDS)}'",), "'day'")
        if kind == "int4" and one.name in ("repeat", "lpad", "rpad", "round", "trunc", "left", "right", "substr"):
            return self._expression("int4", (self.pick(("0", "1", "2", "-1", "3")),), "1")
        return self.make(columns, kind, depth - 1)

    def _cast(self, columns: Sequence[Column], kind: str, depth: int) -> Piece:
        found = [one for one in self.catalog.casts.get(kind, ()) if self.wide or one.arguments[0] in FAVOURED_TYPES]
        source = self.pick(found).arguments[0] if found and self.maybe(0.8) else "text"
        inner = self.make(columns, source, depth - 1)
        modifier = ""
        if kind == "numeric" and self.maybe(0.4):
            modifier = self.pick(("(10, 1)", "(12,2)", "(4)", "(38, 5)", "(3, -1)"))
        elif kind in ("varchar", "bpchar") and self.maybe(0.5):
            modifier = self.pick(("(3)", "(40)", "(1)"))
        elif kind in ("timestamp", "timestamptz", "time", "interval") and self.maybe(0.2):
            modifier = self.pick(("(0)", "(3)"))
        name = f"{sql_name(kind)}{modifier}"
        if self.maybe(0.5):
            return self._expression(kind, ("cast(", inner, f" as {name})"))
        return self._expression(kind, ("(", inner, f")::{name}"))

    def _conditional(self, columns: Sequence[Column], kind: str, depth: int) -> Piece:
        one, two = self.make(columns, kind, depth - 1), self.make(columns, kind, depth - 1)
        roll = self.chance.random()
        if roll < 0.3:
            name = "coalesce(" if self.core else self.pick(("coalesce(", "coalesce(", "greatest(", "least("))
            return self._expression(kind, (name, one, ", ", two, ")"))
        if roll < 0.5:
            return self._expression(kind, ("nullif(", one, ", ", two, ")"))
        if roll < 0.8 or self.subquery is None:
            test = self.condition(columns, depth - 1)
            if self.maybe(0.2):
                return self._expression(kind, ("case when ", test, " then ", one, " end"))
            return self._expression(kind, ("case when ", test, " then ", one, " else ", two, " end"))
        if roll < 0.9:
            other = self.type()
            subject, value = self.make(columns, other, depth - 1), self.literal(other)
            return self._expression(kind, ("case ", subject, " when ", value, " then ", one, " else ", two, " end"))
        return self._expression(kind, ("(", self.subquery(kind, depth - 1), ")"))

    def _special(self, columns: Sequence[Column], kind: str, depth: int) -> Piece:
        match kind:
            case "bool":
                return self._predicate(columns, depth)
            case "numeric" | "float8":
                inner = self.make(columns, self.pick(("timestamptz", "timestamp", "date", "time")), depth - 1)
                extracted = ("extract(", self.pick(FIELDS), " from ", inner, ")")
                return self._expression(kind, (*extracted, "" if kind == "numeric" else "::float8"))
            case "timestamptz" | "timestamp":
                other = "timestamp" if kind == "timestamptz" else "timestamptz"
                zone = self.pick(("'UTC'", "'Europe/Berlin'", "'+05:30'", "interval '-3 hours'"))
                return self._expression(kind, ("(", self.make(columns, other, depth - 1), f" at time zone {zone})"))
        inner = self.make(columns, "text", depth - 1)
        if self.maybe(0.25):
            return self._expression(kind, ("(", inner, f" collate {self.pick(self.catalog.collations)})"))
        shape = self.pick(
            (
                (("substring(", inner, f" from {self.pick(('1', '2', '0', '-1'))})")),
                (("substring(", inner, " from 2 for 1)")),
                (("substring(", inner, " from '1')")),
                (("trim(both 'a' from ", inner, ")")),
                (("overlay(", inner, " placing 'x' from 2)")),
                (("concat(", inner, ", ", self.make(columns, self.type(), depth - 1), ")")),
                (("(", inner, " || ", self.make(columns, self.type(), depth - 1), ")")),
                (("upper(", inner, ")")),
                ((self.pick(("user", "current_user::text", "current_catalog::text", "session_user::text")),)),
            )
        )
        return self._expression(kind, shape)

    def _predicate(self, columns: Sequence[Column], depth: int) -> Piece:
        kind = self.type(comparable=True)
        one, two = self.make(columns, kind, depth - 1), self.make(columns, kind, depth - 1)
        word = self.pick(("", "not "))
        roll = self.chance.random()
        parts: tuple[Part, ...]
        if roll < 0.2:
            parts = (
                "(",
                one,
                f" {word}in (",
                joined([self.literal(kind) for _ in range(self.chance.randint(1, 4))]),
                "))",
            )
        elif roll < 0.38:
            parts = (
                "(",
                one,
                f" {word}between {self.pick(('', '', 'symmetric '))}",
                two,
                " and ",
                self.literal(kind),
                ")",
            )
        elif roll < 0.52:
            parts = ("(", one, self.pick((" is null", " is not null", " isnull", " notnull")), ")")
        elif roll < 0.62 or (roll < 0.7 and not self.core):
            pattern = self.pick(("'b%'", "'%i%'", "'_uy'", "''", "'%\\%%'", "E'b\\\\_y'", "'Ä%'", "'%' escape ''"))
            matched = "like" if self.core else self.pick(("like", "like", "ilike", "similar to"))
            parts = ("(", self.make(columns, "text", depth - 1), f" {word}{matched} {pattern})")
        elif roll < 0.8 or self.core:
            parts = ("(", self.condition(columns, 0), self.pick((" is true", " is not unknown", " is not false")), ")")
        elif roll < 0.88:
            parts = ("((", one, ", ", self.make(columns, "int8", 0), ") < (", two, ", ", self.literal("int8"), "))")
        elif roll < 0.94 or self.subquery is None:
            parts = ("(", one, f" = {self.pick(('any', 'all'))} (array[", joined([self.literal(kind), two]), "]))")
        else:
            parts = ("(", one, f" {word}in (", self.subquery(kind, depth - 1), "))")
        return self._expression("bool", parts, "true")


def sql_name(kind: str) -> str:
    """The type's name in SQL."""
    return f"{sql_name(kind[1:])}[]" if kind.startswith("_") else SQL_NAMES.get(kind, kind)


def function_name(name: str) -> str:
    """Some functions are named like keywords."""
    quoted_names = ("substring", "overlay", "position", "char", "bit", "numeric", "interval", "time", "timestamp")
    return f'"{name}"' if name in (*quoted_names, "varchar", "xmlexists", "normalize", "extract") else name
