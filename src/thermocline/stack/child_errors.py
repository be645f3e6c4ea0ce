"""The error that a process of the stack ended with, read from its log, as the same error again.

A child tells its error as every command does: a line `error TC105: …`, then `hint: …`.
"""

from __future__ import annotations

import re
from pathlib import Path

from thermocline.errors import StackNotReady, ThermoclineError, all_errors

_ERROR = re.compile(r"^error (TC\d{3}): (.*)$")
_HINT = "hint: "


def read_child_error(name: str, log_path: Path, *, start: int = 0) -> ThermoclineError:
    """The last error in the log behind `start`, with the child's code and hint; a child that told none is
    `StackNotReady` with its last line."""
    lines = _read_lines(log_path, start)
    for place in range(len(lines) - 1, -1, -1):
        if (match := _ERROR.match(lines[place])) is None:
            continue
        following = lines[place + 1] if place + 1 < len(lines) else ""
        hint = following.removeprefix(_HINT) if following.startswith(_HINT) else ""
        error = {known.code: known for known in all_errors()}.get(match[1], StackNotReady)
        return error(f"{name}: {match[2]}" if name else match[2], hint=hint)
    last = lines[-1] if lines else "it ended without a message"
    return StackNotReady(f"{name or 'The supervisor'} did not become ready: {last}", hint=f"Its log is {log_path}.")


def _read_lines(log_path: Path, start: int) -> list[str]:
    if not log_path.exists():
        return []
    with log_path.open("rb") as log:
        log.seek(start)
        text = log.read().decode(errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]
