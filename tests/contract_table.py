"""Write docs/contract-tests.md: which tests hold each acceptance item. `make docs` runs it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contract-tests.md"
_HEAD = """# Acceptance items and their tests

<!-- Generated from the marks `@pytest.mark.conforms` by `make docs`; do not edit. -->

C-items are explained in [contract.md](contract.md), M-items concern maintenance, O-items operations.

| id | tests |
|---|---|
"""


def render_page() -> str:
    """One row per id, in their order; a mark on a module or a class counts for each test in it once, by its file."""
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, ids in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT / 'tests')}{'::' + name if name else ''}"
            for item in ids:
                tests[item].append(f"`{place}`")
    rows = (f"| {item} | {'<br>'.join(tests[item])} |" for item in sorted(tests, key=_order))
    return _HEAD + "\n".join(rows) + "\n"


def _marks(tree: ast.Module) -> list[tuple[str, list[str]]]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            ids = [item for decorator in node.decorator_list for item in _ids(decorator)]
            found.append((node.name, ids))
        elif isinstance(node, ast.Assign):
            found.append(("", _ids(node.value)))
    return [(name, ids) for name, ids in found if ids]


def _ids(node: ast.expr) -> list[str]:
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "conforms"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def _order(item: str) -> tuple[str, int]:
    match = re.fullmatch(r"([A-Z])-(\d+)", item)
    return (match[1], int(match[2])) if match else (item, 0)


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
