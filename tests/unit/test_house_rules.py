"""Rules of the tree that no linter checks: who imports tests, sizes of folders and modules, one name for one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from thermocline.core.modes.mode import MODES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "thermocline"
TESTS = ROOT / "tests"

FOLDER_MODULES = 15
LARGE_FOLDERS: dict[str, int] = {
    "cli": 28,  # a module for each command
}
"""Folders of src/thermocline that hold more modules than the rule allows, and how many they may hold."""

SQL_COLUMNS = 120

MODULE_LINES = 450
LONG_MODULES: dict[str, int] = {
    "tests/gateway/test_whole_hostile.py": 480,
}

ONE_SUBJECT_IN_SEVERAL_LAYERS = {
    *{"advise", "explain", "fold", "grants", "jumps", "maintenance", "pacing", "pause", "pins", "premake", "preview"},
    *{"compact", "formats", "iceberg_format", "lake_tables", "policies", "procedures", "profiles", "quarantine"},
    *{"progress", "recover", "retention", "rewrite_manifests", "safety", "stack", "tables", "tiering", "truncate"},
}
"""The same subject in layers that never import each other: its plan in core, rows in catalog, op, errors, command."""


def test_no_test_module_imports_another() -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for module in _imported_modules(path)
        if module.rpartition(".")[2].startswith("test_")
    ]
    assert found == []


def test_folders_hold_at_most_fifteen_modules() -> None:
    counts = {
        str(folder.relative_to(SOURCE)): sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in SOURCE.rglob("*")
        if folder.is_dir()
    }
    assert _above(counts, FOLDER_MODULES, LARGE_FOLDERS) == {}


def test_modules_have_at_most_450_lines() -> None:
    counts = {
        str(path.relative_to(ROOT)): len(_lines(path))
        for part in ("src", "tests", "bench")
        for path in (ROOT / part).rglob("*.py")
    }
    assert _above(counts, MODULE_LINES, LONG_MODULES) == {}


def test_one_module_name_means_one_thing() -> None:
    modules = ((path.stem, path) for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert _repeated(modules, allowed=ONE_SUBJECT_IN_SEVERAL_LAYERS) == {}


def test_one_class_name_means_one_thing() -> None:
    classes = (
        (node.name, path)
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert _repeated(classes, allowed=set()) == {}


def test_decisions_are_numbered_without_gaps_listed_and_referred_to_by_numbers_that_exist() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(folder.glob("0*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    titles = {page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in pages}
    assert all(title.startswith(f"{name[:4]} ") for name, title in titles.items()), titles
    links = [f"- [{title}]({name})" for name, title in titles.items()]
    assert [line for line in _lines(folder / "README.md") if line.startswith("- ")] == links
    files = [path for part in ("src", "tests", "docs", "bench") for path in (ROOT / part).rglob("*.*")]
    named = {
        (str(path.relative_to(ROOT)), number)
        for path in [*files, ROOT / "CHANGELOG.md", ROOT / "pyproject.toml"]
        if path.suffix in (".py", ".md", ".sql", ".toml")
        for number in re.findall(r"decisions?[ /](\d{4})\b", path.read_text(encoding="utf-8"))
    }
    assert {reference for reference in named if not 0 < int(reference[1]) <= len(pages)} == set()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (name.name for name in node.names if (node.module or "tests").split(".")[0] == "tests")


def _above(counts: Mapping[str, int], limit: int, exceptions: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count > exceptions.get(name, limit)}


def _repeated(named: Iterator[tuple[str, Path]], *, allowed: set[str]) -> dict[str, list[str]]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, path in named:
        places[name].append(str(path.relative_to(SOURCE)))
    return {name: found for name, found in places.items() if len(found) > 1 and name not in allowed}


def test_lines_of_sql_have_at_most_120_columns() -> None:
    long = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.sql"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > SQL_COLUMNS
    ]
    assert long == []


def test_modes_are_named_in_their_own_package_only() -> None:
    """Code asks a mode for its properties. `tiered` alone is also the state of a partition, so it is not looked for."""
    names = {mode.name for mode in MODES} - {"tiered"}
    in_python = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if SOURCE / "core" / "modes" not in path.parents
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    in_sql = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in sorted(SOURCE.rglob("*.sql"))
        if path.parent != SOURCE / "catalog" / "tables"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"keep_heap|'(tiered )?keep-heap'|'mirrored", line)
    ]
    assert in_python + in_sql == []


def test_kinds_of_iceberg_catalogs_are_named_in_their_own_package_only() -> None:
    """The migrations that made the JDBC catalog's tables, and the one view over them, are the catalog schema's own."""
    allowed = {"catalog/tables/0013_baseline.sql", "catalog/views/lake_pointers.sql"}
    found = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*"))
        if path.suffix in (".py", ".sql")
        and SOURCE / "lake" / "catalogs" not in path.parents
        and re.search(r"jdbc|iceberg_tables", path.read_text(encoding="utf-8"), re.IGNORECASE)
    ]
    assert set(found) <= allowed


CONNECTION_OPENERS = {
    "psycopg.connect": {"runtime/pg.py", "runtime/postgres_server.py"},  # the latter runs no statement
    "adbc.connect": {"gateway/executor/execution/bulk_reader.py", "spark/kernels/copy_partition.py"},
    "ConnectionPool": {"gateway/lake_arm/catalog_reader.py", "gateway/whole_query/postgres_snapshot.py"},
    "connect_as_typed": {"catalog/table_names.py", "cli/completion.py", "ops/inspect/explain.py"},
}
"""Who opens connections to Postgres by other means than `pg.connect`, which pins the search_path."""


def test_connections_are_opened_in_the_modules_that_pin_their_search_path() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in CONNECTION_OPENERS:
                found[name].add(str(path.relative_to(SOURCE)))
    assert dict(found) == CONNECTION_OPENERS
    for name in ("adbc.connect", "ConnectionPool"):
        for place in CONNECTION_OPENERS[name]:
            text = (SOURCE / place).read_text(encoding="utf-8")
            assert "adbc.connect(pinned_dsn(dsn)" in text or "configure=_configure" in text, place
