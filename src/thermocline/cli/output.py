"""What a command prints: data to stdout (one JSON document with --json), messages and errors to stderr.

Colours and live progress are for terminals; NO_COLOR and TERM=dumb are honoured.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from thermocline.core.health.finding import Finding
from thermocline.errors import ThermoclineError

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_COLUMNS = 200
_COLOURS = {"red": "31", "yellow": "33", "green": "32", "bold": "1"}
_VERDICTS = {
    **dict.fromkeys(("red", "FAIL", "failed", "refused"), "red"),
    **dict.fromkeys(("yellow", "skipped", "paused", "waiting to restart", "warning"), "yellow"),
    **dict.fromkeys(("green", "ok", "done", "running", "up"), "green"),
}
"""Cells of tables that are a verdict, and their colours."""


def print_message(sentence: object) -> None:
    """Print a message for a person to stderr."""
    print(sentence, file=sys.stderr, flush=True)


def print_json(document: object) -> None:
    """Print the JSON document of a command."""
    print(json.dumps(document, default=_to_json, indent=2, ensure_ascii=False), flush=True)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def print_report(report: Mapping[str, Any], *, json: bool) -> None:
    """Print the report of a verb, a table of what its dry run planned, or the state of its request."""
    if json:
        print_json(report)
    elif report.get("dry_run"):
        print_table(["step", f"would be done to {report['table']}"], enumerate(report["plan"], start=1))
    else:
        print_lines(
            [
                report["sentence"]
                if "sentence" in report
                else f"{report['table']}: request {report['request']} is {report['state']}"
            ]
        )


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; wide values are wrapped, never cut, and columns of numbers are aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    cells = [["—" if value is None else str(value) for value in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, column in zip(headings, zip(*cells, strict=True) if cells else [()] * len(headings), strict=True):
        table.add_column(heading, overflow="fold", justify="right" if _are_numbers(column) else "left")
    for row in cells:
        table.add_row(*(Text(cell, style=_VERDICTS.get(cell, "")) for cell in row))
    console = open_console(sys.stdout)
    with console.capture() as captured:
        console.print(table, markup=False)
    print_lines(line.rstrip() for line in captured.get().splitlines())


def _are_numbers(column: Sequence[str]) -> bool:
    return all(cell == "—" or cell.lstrip("~").replace(",", "").isdigit() for cell in column)


def open_console(stream: TextIO) -> Console:
    """Rich on a stream: as wide as the terminal, or wide enough for a file; without colours where they are unwanted."""
    from rich.console import Console

    if has_terminal(stream):
        return Console(file=stream, soft_wrap=False, no_color=not has_colours(stream))
    return Console(file=stream, width=_PLAIN_COLUMNS, color_system=None)


def has_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal, and nobody asked for plain text (https://no-color.org)."""
    return has_terminal(stream) and not os.environ.get("NO_COLOR")


def render_problems(findings: Iterable[Finding]) -> list[str]:
    """What is not good, with what to do about it; nothing where all is."""
    lines = [
        line
        for found in findings
        if found.verdict != "ok"
        for line in (f"{found.verdict:<10} {found.sentence}", *([f"           {found.fix}"] if found.fix else []))
    ]
    return ["", *lines] if lines else []


def print_error(problem: ThermoclineError, *, json: bool = False) -> None:
    """Print an error: its code, its sentence and its hint; with --json one line of JSON, the last one on stderr."""
    if json:
        print_message(render_json_error(problem))
        return
    print_message(f"{_coloured('error', 'red')} {problem.code}: {problem}")
    if problem.hint:
        print_message(f"{_coloured('hint:', 'bold')} {problem.hint}")


def render_json_error(problem: ThermoclineError) -> str:
    """The document of an error, on one line."""
    error = {
        "code": problem.code,
        "message": str(problem),
        "hint": problem.hint or None,
        "exit_code": problem.exit_code,
    }
    return json.dumps({"error": error}, ensure_ascii=False)


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if has_colours(sys.stderr) else text


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
