"""Every error: one class per problem, its own code, in the module of its hundred, ascending, with sentence and hint."""

from __future__ import annotations

import ast
import pickle
from collections import Counter
from pathlib import Path

import pytest

import thermocline
from thermocline import errors
from thermocline.errors import RefusedError, ThermoclineError, UsageError, all_errors

SOURCE = Path(thermocline.__file__).parent
HUNDREDS = {
    "roots": "TC0",
    "stack": "TC1",
    "table": "TC2",
    "lake": "TC3",
    "tiering": "TC4",
    "gateway": "TC5",
    "maintenance": "TC6",
    "inspection": "TC7",
}


def declared(path: Path) -> list[str]:
    """The codes that a module declares, in the order of its text."""
    return [
        str(node.value.value)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "code"
        and isinstance(node.value, ast.Constant)
        and str(node.value.value).startswith("TC")
    ]


def test_no_code_is_given_twice() -> None:
    assert [code for code, count in Counter(error.code for error in all_errors()).items() if count > 1] == []


@pytest.mark.parametrize("module", HUNDREDS)
def test_a_module_holds_the_codes_of_its_hundred_in_ascending_order(module: str) -> None:
    codes = declared(SOURCE / "errors" / f"{module}.py")
    assert codes == sorted(codes)
    assert {code[:3] for code in codes} == {HUNDREDS[module]}


def test_every_error_is_declared_in_the_package_of_errors() -> None:
    elsewhere = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "errors" and declared(path)
    ]
    assert elsewhere == []
    assert all(error.__module__.startswith("thermocline.errors.") for error in all_errors())


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.__name__)
def test_an_error_has_a_sentence_and_a_hint_and_is_imported_from_the_package(error: type[ThermoclineError]) -> None:
    assert getattr(errors, error.__name__) is error
    assert "code" in vars(error)
    assert error().message.endswith(".")
    assert error.hint.endswith((".", "`.")) or error in (
        ThermoclineError,
        RefusedError,
        UsageError,
        errors.PostgresFailed,
    )
    assert type(pickle.loads(pickle.dumps(error("A sentence.", hint="Do this.")))) is error
