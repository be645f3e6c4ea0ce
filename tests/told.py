"""What a command run in this process told: its exit code and what it printed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Told:
    code: int
    out: str
    err: str

    def document(self) -> Any:
        return json.loads(self.out)

    def line(self, start: str) -> list[str]:
        """The words of the first line that begins so."""
        return next(line.split() for line in self.out.splitlines() if line.startswith(start))
