"""What a command prints: data to stdout (one JSON document with --json), messages to stderr."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from thermocline.errors import ThermoclineError


def print_message(sentence: str) -> None:
    """Print a message for a person to stderr."""
    print(sentence, file=sys.stderr, flush=True)


def progress_printer(*, silent: bool) -> Callable[[str], None]:
    """What prints the progress of a command; nothing where its output is JSON."""
    return (lambda _sentence: None) if silent else print_message


def print_json(document: object) -> None:
    """Print the JSON document of a command."""
    print(json.dumps(document, default=_to_json, indent=2, ensure_ascii=False), flush=True)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def print_report(report: Mapping[str, Any], *, json: bool) -> None:
    """Print the report of a verb, or the state of its request."""
    if json:
        print_json(report)
    else:
        print_lines(
            [
                report["sentence"]
                if "sentence" in report
                else f"{report['table']}: request {report['request']} is {report['state']}"
            ]
        )


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; wide values are wrapped, never cut."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*("—" if value is None else str(value) for value in row))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table, markup=False)


def print_error(problem: ThermoclineError) -> None:
    """Print the sentence of an error with its code, and its hint."""
    print_message(f"error {problem.code[:2]}-{problem.code[2:]}: {problem}")
    if problem.hint:
        print_message(f"hint: {problem.hint}")


def _to_json(value: Any) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    return str(value)
