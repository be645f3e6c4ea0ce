"""The hint of every refusal of a name that is not known: the nearest right one, else those there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED = 12


def find_nearest(given: str, known: Iterable[str]) -> str | None:
    """The known name that a person most likely meant, whatever its capitals."""
    by_folded = {name.lower(): name for name in known}
    found = difflib.get_close_matches(given.strip().lower(), by_folded, n=1)
    return by_folded[found[0]] if found else None


def render_nearest(given: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """`Did you mean x?`; where nothing is near, `otherwise`, else the known names."""
    names = list(known)
    if (nearest := find_nearest(given, names)) is not None:
        return f"Did you mean {nearest}?"
    if otherwise or not names:
        return otherwise
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"There {'is' if len(names) == 1 else 'are'} {', '.join(names[:_LISTED])}{more}."
