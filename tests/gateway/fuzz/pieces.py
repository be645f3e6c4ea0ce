"""Statements as trees of text: rendered to SQL with numbered parameters, and taken apart again by the shrinker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Union


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A parameter's value. `type_oid` 0 leaves the type to Postgres; `data` is in the format that it is sent in."""

    type_oid: int
    data: bytes | None
    is_binary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a statement.

    `kind` is the Postgres type of an expression, empty for other parts: only an expression of the same type may take an
    expression's place. A clause that `may_go` can be left out. `simplest` is an expression of the same type without
    parts.
    """

    parts: tuple[Union[str, Argument, Piece], ...]  # noqa: UP007
    kind: str = ""
    may_go: bool = False
    simplest: str = ""
    gives_order: bool = False
    """Whether it is the ORDER BY of the statement itself."""

    @property
    def children(self) -> list[Piece]:
        return [part for part in self.parts if isinstance(part, Piece)]


Part = Union[str, Argument, Piece]  # noqa: UP007


def text(*parts: Part) -> Piece:
    """A part that is no expression and stays."""
    return Piece(parts=parts)


def clause(*parts: Part) -> Piece:
    """A part that can be left out."""
    return Piece(parts=parts, may_go=True)


def order_clause(*parts: Part) -> Piece:
    """The ORDER BY of the statement itself."""
    return Piece(parts=parts, may_go=True, gives_order=True)


def is_ordered(piece: Piece) -> bool:
    """Whether the rows of the statement come in an order."""
    return piece.gives_order or any(is_ordered(child) for child in piece.children)


def joined(pieces: Iterable[Piece], separator: str = ", ") -> Piece:
    """A list; each element after the first can be left out, with the separator before it."""
    first, *others = list(pieces)
    return Piece(parts=(first, *(clause(separator, piece) for piece in others)))


@dataclass(slots=True)
class Rendered:
    """SQL text, and the parameters that its `$1`, `$2`, … stand for."""

    sql: str = ""
    arguments: list[Argument] = field(default_factory=list)


def render(piece: Piece) -> Rendered:
    """The statement's text; parameters are numbered as they come."""
    out: list[str] = []
    arguments: list[Argument] = []
    for part in _leaves(piece):
        if isinstance(part, Argument):
            arguments.append(part)
            out.append(f"${len(arguments)}")
        else:
            out.append(part)
    return Rendered(sql="".join(out), arguments=arguments)


def _leaves(piece: Piece) -> Iterator[str | Argument]:
    for part in piece.parts:
        if isinstance(part, Piece):
            yield from _leaves(part)
        else:
            yield part


def reductions(piece: Piece) -> Iterator[Piece]:
    """Smaller statements, each one step away, the largest steps first."""
    level: list[tuple[tuple[int, ...], Piece]] = [((), piece)]
    while level:
        following: list[tuple[tuple[int, ...], Piece]] = []
        for path, node in level:
            yield from (_replaced(piece, path, smaller) for smaller in _smaller(node))
            following += [((*path, at), part) for at, part in enumerate(node.parts) if isinstance(part, Piece)]
        level = following


def _smaller(node: Piece) -> Iterator[Piece]:
    if node.may_go and node.parts:
        yield Piece(parts=())
    if not node.kind:
        return
    if node.simplest and node.parts != (node.simplest,):
        yield Piece(parts=(node.simplest,), kind=node.kind, simplest=node.simplest)
    yield from (inner for inner in _descendants(node) if inner.kind == node.kind)


def _descendants(node: Piece) -> Iterator[Piece]:
    for child in node.children:
        yield child
        yield from _descendants(child)


def _replaced(piece: Piece, path: tuple[int, ...], by: Piece) -> Piece:
    if not path:
        return by
    at, rest = path[0], path[1:]
    part = piece.parts[at]
    assert isinstance(part, Piece)
    return replace(piece, parts=(*piece.parts[:at], _replaced(part, rest, by), *piece.parts[at + 1 :]))
