"""Statements that are composed with names have no parameters: a `%` in a name would be taken for a placeholder."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import thermocline
from thermocline.runtime.pg import is_mixed, load_queries

SOURCES = sorted(Path(thermocline.__file__).parent.rglob("*.py"))


def test_a_template_with_places_and_placeholders_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mixed_queries"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "some.sql").write_text(
        "-- name: fine\nselect 5 % {n}\n\n-- name: mixed\nselect {column} from t where a = %(a)s\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="mixed"):
        load_queries("mixed_queries", "some.sql")


def test_no_statement_in_the_code_mixes_them() -> None:
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "SQL"
                and node.args
            ):
                text = node.args[0]
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and is_mixed(text.value):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
