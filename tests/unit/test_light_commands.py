"""A command that needs no lake library does not load one: pyspark, pyarrow and pyiceberg take a second each."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import thermocline.cli

CLI = Path(thermocline.cli.__file__).parent
SLOW = (
    "pyspark",
    "py4j",
    "duckdb",
    "pyarrow",
    "pyiceberg",
    "numpy",
    "pandas",
    "sqlglot",
    "adbc_driver_manager",
)
READS_THE_LAKE = {
    *{("database", "doctor"), ("explain", "explain"), ("recover", "recover"), ("stack", "demo"), ("stack", "up")},
    *{("register", "register"), ("register", "unregister"), ("truncate", "truncate")},
    *{("verify", "verify"), ("verify", "_repair_and_verify"), ("reference", "render_metrics_page")},
    *{("processes", "worker"), ("processes", "gateway"), ("processes", "serve")},
    *{("show", "show"), ("stack", "_read_problems")},  # they look whether each lake can be read
    ("advise", "advise"),  # it runs the checks of `register`
    ("tier_and_fold", "_run_verb"),  # its dry run plans in this process
}
"""Functions of commands that read or write lake files in their own process, or serve."""


def _imports() -> Iterator[tuple[str, str, str]]:
    """Module, function and the import statements that the function runs when it is called."""
    for path in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (path.stem, node.name) not in READS_THE_LAKE:
                found = [ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.ImportFrom | ast.Import)]
                if found:
                    yield path.stem, node.name, "\n".join(found)


def _loaded(statements: str) -> list[str]:
    program = (
        f"import thermocline.cli.main\n{statements}\nimport sys\nprint(*(n for n in {SLOW!r} if n in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_command_line_itself_loads_no_lake_library_and_no_driver() -> None:
    program = "import thermocline.cli.main, sys; print('psycopg' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), _loaded("")) == (["False", "False"], [])


@pytest.mark.parametrize(
    ("module", "function", "statements"), [pytest.param(*found, id=".".join(found[:2])) for found in _imports()]
)
def test_a_command_that_reads_no_lake_loads_no_lake_library(module: str, function: str, statements: str) -> None:
    assert _loaded(statements) == []
