"""docs/architecture.md names paths and functions that exist, and every package; docs/contract-tests.md is current."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.contract_table import PAGE as CONTRACT_TESTS
from tests.contract_table import render_page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "thermocline"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)+(?:\.[a-z]+)?(?:::\w+)?|[a-z_]+\.(?:toml|py))`", PAGE)))


def existing_path(name: str) -> Path | None:
    return next((path for path in (SOURCE / name, ROOT / name) if path.exists()), None)


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_exists(name: str) -> None:
    place, _, defined = name.partition("::")
    path = existing_path(place)
    assert path is not None, place
    if defined:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert defined in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_page_names_every_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if f"`{name}`" not in PAGE} == set()


def test_the_table_of_items_and_tests_is_current() -> None:
    assert CONTRACT_TESTS.read_text(encoding="utf-8") == render_page(), "run `make docs`"


def test_the_contract_names_every_contract_item_that_a_test_holds() -> None:
    contract = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    named = {int(number) for number in re.findall(r"C-(\d+)", contract)}
    for first, last in re.findall(r"C-(\d+)–C-(\d+)", contract):
        named |= set(range(int(first), int(last) + 1))
    held = {int(number) for number in re.findall(r"^\| C-(\d+) ", render_page(), re.MULTILINE)}
    assert sorted(held - named) == []
