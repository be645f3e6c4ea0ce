"""What cannot be undone asks for the table's name: typed by a person, or given by a script, never assumed. What can be
undone asks a person yes or no."""

from __future__ import annotations

import sys

import typer

from thermocline.core.names import TableName
from thermocline.errors import NotConfirmed


def check_agreed(question: str, *, refusal: str) -> None:
    """Ask a person at a terminal to agree to what can be undone; a script goes on."""
    if sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise NotConfirmed(f"{refusal}: the question was answered with no.", hint="Nothing was changed.")


def check_name_typed(name: TableName, given: str | None, *, flag: str, warning: str, refusal: str) -> None:
    """Ask a person for the name after the warning; refuse with the refusal when it was not given, there or by the
    flag."""
    if given is None and sys.stdin.isatty():
        given = str(typer.prompt(f"{warning} Type {name} to go on", err=True))
    if given != str(name):
        raise NotConfirmed(
            f"{refusal}: its name was not given.",
            hint=f"Type the name of the table when asked, or give it by {flag} in a script.",
        )
