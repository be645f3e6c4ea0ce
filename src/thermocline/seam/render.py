"""Fill the SQL templates of `queries/`: one rule for every statement of ours that names a registered table.

A place `{name}` is filled by the first of these that knows it:

1. a value of the call;
2. a part of the table: `{heap}`, `{seam}`, `{delta}`, `{lake}`, `{spill}`, `{tier_key}`; `{columns}` and `{writable}`
   (without generated columns), as `{h_columns}` and `{h_writable}` under an alias of one letter; `{key_columns}`;
   `{columns_from_excluded}`; `{d_is_h}`, which is true when the rows `d` and `h` have the same key by the operators of
   the key's index;
3. another template of the same file, rendered by the same rule.

A place that none of them knows is an error. Values are composed by psycopg and never scanned for places, so a column
may be called `{heap}`. `thermocline.render` follows the same rule inside Postgres, for the functions and the view.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from psycopg import sql

from thermocline.core.axis import AXIS_MIN, KeyType
from thermocline.runtime.pg import load_queries, table_identifier
from thermocline.seam.heap.facts import KeyColumn
from thermocline.seam.objects import SeamDefinition

_RELATIONS = frozenset({"heap", "seam", "delta", "lake", "spill"})
_ALIASED = re.compile(r"(?P<alias>[a-z])_(?P<what>columns|writable)")
_SAME_KEY = re.compile(r"(?P<left>[a-z])_is_(?P<right>[a-z])")


@dataclass(frozen=True, slots=True)
class Templates:
    """The statements of one .sql file by name."""

    bodies: Mapping[str, str]

    @classmethod
    def load(cls, file: str, package: str = "thermocline.seam") -> Templates:
        return cls(load_queries(package, f"queries/{file}"))

    def __getitem__(self, name: str) -> str:
        """A statement without places."""
        return self.bodies[name]

    def render(self, name: str, seam: SeamDefinition | None, **values: sql.Composable) -> sql.Composed:
        """The statement with every place filled; without a table, by values and other templates alone."""
        body = self.bodies[name]
        places = {place for _, place, _, _ in string.Formatter().parse(body) if place is not None}
        return sql.SQL(body).format(**{place: self._fill(place, seam, values) for place in places})

    def _fill(self, place: str, seam: SeamDefinition | None, values: Mapping[str, sql.Composable]) -> sql.Composable:
        if place in values:
            return values[place]
        if seam is not None and (part := _table_part(place, seam)) is not None:
            return part
        if place in self.bodies:
            return self.render(place, seam, **values)
        raise KeyError(f"nothing fills the place {{{place}}}")


def _table_part(place: str, seam: SeamDefinition) -> sql.Composable | None:
    if place in _RELATIONS:
        return table_identifier(getattr(seam.objects, place))
    if aliased := _ALIASED.fullmatch(place):
        return column_list(_column_names(seam, aliased["what"]), aliased["alias"])
    if matched := _SAME_KEY.fullmatch(place):
        return key_matches(seam.heap.primary_key, matched["left"], matched["right"])
    match place:
        case "tier_key":
            return sql.Identifier(seam.tier_key)
        case "columns" | "writable" | "key_columns":
            return column_list(_column_names(seam, place))
        case "columns_from_excluded":
            names = (sql.Identifier(name) for name in _column_names(seam, "columns"))
            return sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in names)
    return None


def _column_names(seam: SeamDefinition, what: str) -> list[str]:
    if what == "key_columns":
        return [column.name for column in seam.heap.primary_key]
    return [column.name for column in seam.heap.columns if what == "columns" or not column.generated]


def column_list(names: Iterable[str], alias: str | None = None) -> sql.Composed:
    """Columns by name, of the relation with that alias."""
    return sql.SQL(", ").join(sql.Identifier(alias, name) if alias else sql.Identifier(name) for name in names)


def key_matches(key: tuple[KeyColumn, ...], left: str, right: str) -> sql.Composed:
    """The condition that two rows have the same key, by the operators of the key's index."""
    return sql.SQL(" and ").join(
        sql.SQL("{} operator({}.{}) {}").format(
            sql.Identifier(left, column.name),
            sql.Identifier(column.operator_schema),
            sql.SQL(column.operator),
            sql.Identifier(right, column.name),
        )
        for column in key
    )


def bigint_literal(value: int) -> sql.Literal:
    """A number as a quoted literal: the minus sign of a bare number is an operator, and the lowest bigint has none."""
    return sql.Literal(str(value))


def axis_value(key_type: KeyType, at: int) -> sql.Composed:
    """A position on the axis as an expression of the key's own type."""
    axis = key_type.column_type.axis
    if axis is None or axis.from_axis is None:
        return sql.SQL("{}::bigint").format(bigint_literal(at))
    return sql.SQL("thermocline.{}({}::bigint)").format(sql.Identifier(axis.from_axis), bigint_literal(at))


def key_between(seam: SeamDefinition, lo: int, hi: int, alias: str | None = None) -> sql.Composed:
    """The condition lo <= key < hi; without a lower limit where `lo` is the start of the axis."""
    key = sql.Identifier(alias, seam.tier_key) if alias else sql.Identifier(seam.tier_key)
    below = sql.SQL("{} < {}").format(key, axis_value(seam.key_type, hi))
    if lo == AXIS_MIN:
        return below
    return sql.SQL("{} >= {} and {}").format(key, axis_value(seam.key_type, lo), below)
