"""Run a command of ours in this process: its exit code and what it printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from thermocline.cli.main import run


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str

    def document(self) -> Any:
        return json.loads(self.out)

    def line(self, start: str) -> list[str]:
        """The words of the first line that begins so."""
        return next(line.split() for line in self.out.splitlines() if line.startswith(start))


RunCommand = Callable[..., CommandResult]


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> CommandResult:
    capsys.readouterr()
    with pytest.raises(SystemExit) as leaving:
        run(list(arguments))
    printed = capsys.readouterr()
    return CommandResult(int(leaving.value.code or 0), printed.out, printed.err)


def run_json_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The document that a command prints; it must succeed."""
    result = run_command(capsys, *arguments)
    assert result.code == 0
    found: dict[str, Any] = result.document()
    return found
