"""The mutants: one change each of a guard in the source, declared as data, with the tests that must notice it.

`mutants/*.toml` hold them, a file per subject:

    [[mutant]]
    name = "publication without the fence"          # unique, a sentence's worth
    file = "catalog/queries/journal.sql"            # below src/thermocline
    find = "…"                                      # occurs exactly once in that file
    replace = "…"
    tests = ["tests/postgres/test_journal.py::…"]   # the fastest that notice it; each passes on the unchanged source
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path("src/thermocline")
CATALOGUE = Path(__file__).parent


class MutantDoesNotApply(ValueError):
    """The text of a mutant is not in its file exactly once: the guard was rewritten, and its mutant must be too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file, and who must notice it."""

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def changed(self, text: str) -> str:
        """The file's text with the change made."""
        if (count := text.count(self.find)) != 1:
            raise MutantDoesNotApply(
                f"{self.name}: its text occurs {count} times in {self.file}, not once:\n{self.find}"
            )
        return text.replace(self.find, self.replace)


def read_mutants(directory: Path = CATALOGUE) -> tuple[Mutant, ...]:
    """Every mutant, in the order of files and of lines."""
    return tuple(
        Mutant(**{**said, "tests": tuple(said["tests"])})
        for file in sorted(directory.glob("*.toml"))
        for said in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]
    )
