"""Literals that mean another moment each time they are read: `'now'`, `'today'`."""

from __future__ import annotations

import re

_CLOCK_WORD = re.compile(r"(?<![a-z])(?:now|today|tomorrow|yesterday)(?![a-z])")
_QUOTED = re.compile(
    r"""[e]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?(?:\*/|\Z)"""
    r"""|\$((?:[^\W\d]\w*)?)\$.*?(?:\$\1\$|\Z)""",
    re.DOTALL,
)
_NO_LITERAL = ('"', "-", "/")


def has_clock_literal(text: str) -> bool:
    """Whether a literal of the text may be read as a moment of the clock. Escapes may spell such a word, so literals
    with escapes count."""
    lowered = text.lower()
    if "u&'" in lowered:
        return True
    literals = [found[0] for found in _QUOTED.finditer(lowered) if found[0][:1] not in _NO_LITERAL]
    return any(_CLOCK_WORD.search(one) or (one.startswith("e") and "\\" in one) for one in literals)
