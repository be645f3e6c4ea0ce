"""Every error, one class per problem, ordered by code. One root, three branches, each mapped once per shell (exit code,
HTTP status, SQLSTATE).

    ThermoclineError
    ├── RefusedError          refused; nothing was changed
    │   └── UsageError        the command or an argument is wrong (exit code 2)
    ├── TryAgainError         the next cycle tries again
    └── OutcomeUnknownError   touch nothing, tell a person

A module holds the codes of one hundred. The docstring of a class is its sentence when none is given; `hint` says what
to do. A new error needs its class and nothing else: docs/errors.md is generated (`make docs`).
"""

from __future__ import annotations

from collections.abc import Iterator

from thermocline.errors.gateway import *  # noqa: F403
from thermocline.errors.inspection import *  # noqa: F403
from thermocline.errors.lake import *  # noqa: F403
from thermocline.errors.maintenance import *  # noqa: F403
from thermocline.errors.roots import *  # noqa: F403
from thermocline.errors.roots import ThermoclineError
from thermocline.errors.stack import *  # noqa: F403
from thermocline.errors.table import *  # noqa: F403
from thermocline.errors.tiering import *  # noqa: F403


def all_errors() -> tuple[type[ThermoclineError], ...]:
    """Every class of the tree, ascending by code."""
    return tuple(sorted(_walk(ThermoclineError), key=lambda error: error.code))


def _walk(error: type[ThermoclineError]) -> Iterator[type[ThermoclineError]]:
    yield error
    for derived in error.__subclasses__():
        yield from _walk(derived)
