"""Every statement that a module takes by name is in the .sql file that it loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import thermocline

PACKAGE = Path(thermocline.__file__).parent
LOADED = re.compile(
    r'load_queries\("thermocline\.(?P<package>\w+)", "(?P<file>[^"{]+)"\)'
    r'|Templates\.load\("(?P<own>[^"]+)"(?:, "thermocline\.(?P<other>\w+)")?\)'
)
TAKEN = re.compile(r'QUERIES(?:\.render\(\s*|\[)"(\w+)"')
DEFINED = re.compile(r"^-- name:[ \t]*(\w+)", re.MULTILINE)


def loaded_file(path: Path) -> Path | None:
    found = list(LOADED.finditer(path.read_text(encoding="utf-8")))
    if len(found) != 1:
        return None
    match = found[0]
    if match["own"]:
        return PACKAGE / (match["other"] or "seam") / "queries" / match["own"]
    return PACKAGE / match["package"] / match["file"]


MODULES = {
    path.relative_to(PACKAGE).as_posix(): file
    for path in sorted(PACKAGE.rglob("*.py"))
    if (file := loaded_file(path)) is not None
}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_takes_statements_that_its_file_has(module: str) -> None:
    text = (PACKAGE / module).read_text(encoding="utf-8")
    defined = set(DEFINED.findall(MODULES[module].read_text(encoding="utf-8")))
    assert set(TAKEN.findall(text)) <= defined
