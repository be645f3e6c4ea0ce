"""Operands of a pushed-down condition: columns of the lake table, constants and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from thermocline.core.types import COLUMN_TYPES
from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.syntax.syntax_tree import strip_parentheses
from thermocline.gateway.sql.values import Constant, ConstantType, NotProvable, parse_array

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


_CONSTANT_TYPES: dict[exp.DType, ConstantType] = {
    exp.DataType.build(declared.name, dialect="postgres").this: declared.constant for declared in COLUMN_TYPES.values()
}


class Operands:
    """Resolves the columns and parameters of one statement."""

    def __init__(self, column: Callable[[exp.Column], MappedColumn], parameters: Sequence[Constant]) -> None:
        self._column = column
        self._parameters = parameters

    def column(self, node: exp.Expr) -> MappedColumn | None:
        """The column that an operand is, or `None`. `name::text` on a text column is the
        column."""
        node = strip_parentheses(node)
        inner = strip_parentheses(node.this) if isinstance(node, exp.Cast) else None
        if isinstance(node, exp.Cast) and isinstance(inner, exp.Column):
            mapped_table = self._column(inner)
            kind = node.to
            plain = (
                isinstance(kind, exp.DataType)
                and kind.this in (exp.DType.TEXT, exp.DType.VARCHAR)
                and not kind.expressions
            )
            return mapped_table if plain and mapped_table.field.kind == "string" and mapped_table.equality else None
        return self._column(node) if isinstance(node, exp.Column) else None

    def constant(self, node: exp.Expr) -> Constant | None:
        """The constant that an operand is, or `None`."""
        node = strip_parentheses(node)
        match node:
            case exp.Null():
                return Constant(None, "unknown")
            case exp.Boolean():
                return Constant("t" if node.this else "f", "boolean")
            case exp.Literal():
                return Constant(str(node.this), "unknown" if node.is_string else "number")
            case exp.Neg() if (
                isinstance(strip_parentheses(node.this), exp.Literal) and not strip_parentheses(node.this).is_string
            ):
                return Constant("-" + str(strip_parentheses(node.this).this), "number")
            case exp.Parameter():
                return self._parameter(node)
            case exp.Cast():
                return self._cast(node)
        return None

    def _parameter(self, node: exp.Parameter) -> Constant:
        number = int(str(node.this.this)) - 1
        if not 0 <= number < len(self._parameters):
            raise NotProvable(f"parameter ${number + 1} has no value")
        return self._parameters[number]

    def _cast(self, node: exp.Cast) -> Constant | None:
        inner = self.constant(node.this)
        if inner is None or not isinstance(node.to, exp.DataType):
            return None
        kind = constant_type(node.to)
        if kind is None or inner.type not in ("unknown", "number", kind):
            return None
        return Constant(inner.text, kind)

    def array(self, node: exp.Expr) -> tuple[Constant, ...] | None:
        """The elements of an array constant, or `None`."""
        node = strip_parentheses(node)
        if isinstance(node, exp.Array):
            elements = tuple(self.constant(element) for element in node.expressions)
            return None if any(element is None for element in elements) else tuple(e for e in elements if e is not None)
        if not isinstance(node, exp.Cast) or not isinstance(node.to, exp.DataType) or node.to.this != exp.DType.ARRAY:
            return None
        kind = constant_type(node.to.expressions[0]) if len(node.to.expressions) == 1 else None
        source = self.constant(node.this)
        if kind is None or source is None or source.type != "unknown" or source.text is None:
            return None
        return tuple(Constant(text, kind) for text in parse_array(source.text))


def constant_type(kind: exp.DataType) -> ConstantType | None:
    """The type of a cast constant. A cast with a length or precision may change the value, so it is not provable."""
    return None if kind.expressions else _CONSTANT_TYPES.get(kind.this)
