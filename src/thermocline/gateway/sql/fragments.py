"""Pieces of DuckDB SQL with their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Parameter = bool | int | float | str | bytes | list[str] | list[int]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of DuckDB SQL and its parameters, in order."""

    text: str
    parameters: tuple[Parameter, ...] = ()


def join_fragments(separator: str, fragments: Sequence[Fragment]) -> Fragment:
    return Fragment(
        separator.join(f"({part.text})" for part in fragments),
        tuple(p for part in fragments for p in part.parameters),
    )


def wrap_fragment(before: str, inner: Fragment, after: str = "") -> Fragment:
    return Fragment(f"{before}({inner.text}){after}", inner.parameters)


def fill_template(template: str, parts: Sequence[Fragment]) -> Fragment:
    """Replace each `{}` of a template by a fragment; parameters stay in order."""
    values: tuple[Parameter, ...] = tuple(value for part in parts for value in part.parameters)
    return Fragment(template.format(*(part.text for part in parts)), values)
