"""The mutants under tests/mutants still apply to the sources; `make mutants` shows that each is noticed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.mutants.catalogue import SOURCE, Mutant, MutantDoesNotApply, read_mutants
from tests.mutants.run import ROOT, copied_tree, run_mutant

MUTANTS = read_mutants()


def test_there_are_fifty_mutants_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= 50
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_its_file_in_one_place_and_names_tests_that_exist(mutant: Mutant) -> None:
    text = (ROOT / SOURCE / mutant.file).read_text(encoding="utf-8")
    changed = mutant.changed(text)
    assert changed != text
    if mutant.file.endswith(".py"):
        ast.parse(changed)
    assert mutant.tests
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_a_text_that_is_not_there_once_is_an_error() -> None:
    mutant = Mutant(name="m", file="f.py", find="a < b", replace="a <= b", tests=("t",))
    assert mutant.changed("if a < b:") == "if a <= b:"
    for text in ("if a > b:", "if a < b and not a < b:"):
        with pytest.raises(MutantDoesNotApply):
            mutant.changed(text)


def test_a_mutant_is_killed_by_a_test_that_notices_it_and_survives_one_that_does_not(tmp_path: Path) -> None:
    """In a tree of its own, and the tree is as it was afterwards."""
    source = tmp_path / SOURCE / "limit.py"
    source.parent.mkdir(parents=True)
    (source.parent / "__init__.py").touch()
    source.write_text("def is_low(value): return value < 10\n", encoding="utf-8")
    (tmp_path / "test_limit.py").write_text(
        "from thermocline.limit import is_low\n"
        "def test_far(): assert is_low(3) and not is_low(30)\n"
        "def test_edge(): assert not is_low(10)\n",
        encoding="utf-8",
    )
    found = {}
    for test in ("test_far", "test_edge", "test_missing"):
        mutant = Mutant(
            name=test, file="limit.py", find="value < 10", replace="value <= 10", tests=(f"test_limit.py::{test}",)
        )
        found[test] = run_mutant(tmp_path, mutant).verdict
    assert found == {"test_far": "survived", "test_edge": "killed", "test_missing": "broken"}
    assert source.read_text(encoding="utf-8") == "def is_low(value): return value < 10\n"


def test_the_copy_is_not_the_work_tree() -> None:
    with copied_tree() as tree:
        assert (tree / SOURCE / "errors" / "__init__.py").is_file()
        assert not tree.is_relative_to(ROOT)
        assert not (tree / ".venv").exists()
