"""Run mutants: `python -m tests.mutants.run [NAME…]`. Each is applied alone to a copy of the tree, and its tests must
fail there.

The work tree is never touched: sources, tests and settings are copied once, and the copy is what runs. First all tests
that mutants name pass on the unchanged copy, for a test that fails anyhow notices nothing. A mutant is

    killed      one of its tests failed, or ran into the time limit
    survived    all of its tests passed: a guard that nobody would miss
    broken      its text is not there once, or pytest could not run: the mutant has to be mended

Ends with 0 when every mutant was killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.mutants.catalogue import SOURCE, Mutant, MutantDoesNotApply, read_mutants

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "bench", "docs", "pyproject.toml", "README.md", "Makefile", "CONTRIBUTING.md", "CHANGELOG.md")
TIMEOUT_SECONDS = 180
PASSED, FAILED = 0, 1
Verdict = Literal["killed", "survived", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a mutant, and the last lines of pytest."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    said: str


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests of the copy against its sources; pytest's exit code and its last lines."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--timeout", str(TIMEOUT_SECONDS), *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])


def run_mutant(tree: Path, mutant: Mutant) -> Outcome:
    """Apply one mutant to the copy, run its tests, and put the file back."""
    started = time.monotonic()
    path = tree / SOURCE / mutant.file
    text = path.read_text(encoding="utf-8")
    try:
        path.write_text(mutant.changed(text), encoding="utf-8")
        code, said = run_tests(tree, mutant.tests)
    except MutantDoesNotApply as problem:
        code, said = -1, str(problem)
    finally:
        path.write_text(text, encoding="utf-8")
    verdict: Verdict = "killed" if code == FAILED else "survived" if code == PASSED else "broken"
    return Outcome(mutant=mutant, verdict=verdict, seconds=time.monotonic() - started, said=said)


@contextmanager
def copied_tree(root: Path = ROOT) -> Iterator[Path]:
    """The tree in a temporary place, without what tools left in it."""
    with tempfile.TemporaryDirectory(prefix="thermocline-mutants-") as name:
        tree = Path(name)
        tree.chmod(0o755)
        for part in COPIED:
            if (root / part).is_dir():
                shutil.copytree(root / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(root / part, tree / part)
        yield tree


def choose(mutants: Sequence[Mutant], wanted: Sequence[str]) -> tuple[Mutant, ...]:
    """The mutants whose names or files contain one of the texts; all without any."""
    return tuple(
        mutant for mutant in mutants if not wanted or any(text in mutant.name or text in mutant.file for text in wanted)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.run", description="Show that each mutant is noticed by its tests."
    )
    parser.add_argument(
        "wanted", nargs="*", metavar="NAME", help="part of a mutant's name or file; all mutants without any"
    )
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests on the unchanged sources first"
    )
    given = parser.parse_args(arguments)
    mutants = choose(read_mutants(), given.wanted)
    if not mutants:
        parser.error("no mutant has such a name")
    with copied_tree() as tree:
        if not given.no_baseline:
            code, said = run_tests(tree, sorted({test for mutant in mutants for test in mutant.tests}))
            if code != PASSED:
                print(f"the tests do not pass on the unchanged sources (pytest ended with {code}):\n{said}")
                return 1
        outcomes = []
        for number, mutant in enumerate(mutants, 1):
            outcomes.append(outcome := run_mutant(tree, mutant))
            print(
                (
                    f"{number:>3}/{len(mutants)} {outcome.verdict:<8} {outcome.seconds:5.0f} s  {mutant.file}: "
                    f"{mutant.name}"
                ),
                flush=True,
            )
            if outcome.verdict != "killed":
                print(outcome.said, flush=True)
    counts = {
        verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in ("killed", "survived", "broken")
    }
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 0 if counts["killed"] == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
