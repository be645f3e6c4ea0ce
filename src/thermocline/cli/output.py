"""What a command prints: data to stdout (one JSON document with --json), talk to stderr."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from thermocline.errors import ThermoclineError


def tell(sentence: str) -> None:
    """A line of talk."""
    print(sentence, file=sys.stderr, flush=True)


def print_json(document: object) -> None:
    """The one JSON document of a command."""
    print(json.dumps(document, default=_plain, indent=2, ensure_ascii=False), flush=True)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def print_report(report: Mapping[str, Any], *, json: bool) -> None:
    """What a verb did, or where the request for it stands."""
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
    """A table for people; wide values are folded, never cut."""
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
    """One sentence, its code, and what to do."""
    tell(f"error {problem.code[:2]}-{problem.code[2:]}: {problem}")
    if problem.hint:
        tell(f"hint: {problem.hint}")


def _plain(value: Any) -> object:
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
