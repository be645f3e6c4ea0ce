"""The generated pages of the documentation: `python -m thermocline.cli.reference docs` writes them, a test checks them.

A page is rendered from the declarations that the program uses, so it cannot differ from them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from thermocline.core.types import COLUMN_TYPES, LAKE_TYPES, MAX_DECIMAL_PRECISION, ColumnType
from thermocline.errors import (
    OutcomeUnknownError,
    RefusedError,
    ThermoclineError,
    TryAgainError,
    UsageError,
    all_errors,
)
from thermocline.runtime.settings import Settings

_GENERATED = "<!-- Generated from {source} by `make docs`; do not edit. -->"
_HUNDREDS = {
    "TC0": "Branches of the tree, and errors of no class",
    "TC1": "Machine, stack, Postgres server and settings",
    "TC2": "Registration and the user's table",
    "TC3": "Spark, lake commits and lake files",
    "TC4": "Tiering, folding and everything else that moves rows",
    "TC5": "Reading the lake, and the gateway",
    "TC6": "Lake maintenance",
    "TC7": "Explain, pins and verify",
}
_BRANCHES = (
    (UsageError, "usage"),
    (RefusedError, "refused"),
    (TryAgainError, "try again"),
    (OutcomeUnknownError, "outcome unknown"),
    (ThermoclineError, "failed"),
)


def render_errors_page() -> str:
    """docs/errors.md: code, branch, sentence and hint of every error."""
    lines = [
        "# Errors",
        "",
        _GENERATED.format(source="`src/thermocline/errors/`"),
        "",
        "The command line prints `error TC105: sentence` and `hint: what to do` on stderr. With `--json` the last line",
        'of stderr is `{"error": {"code": "TC105", "message": …, "hint": …, "exit_code": 1}}`, for wrong calls and',
        "unexpected failures too, and stdout holds data only. The gateway sends `TC105: sentence` in an ErrorResponse,",
        "with the hint as its own field; logs, requests and cycles record the same code. The sentence usually names",
        "the table, file or setting.",
        "",
        "| kind | meaning | exit code |",
        "|---|---|---|",
        "| failed | the command failed, or a check is red | 1 |",
        "| usage | the command or an argument is wrong | 2 |",
        "| refused | refused; nothing was changed | 3 |",
        "| try again | not possible now; the next cycle tries again | 1 |",
        "| outcome unknown | touch nothing, look first | 4 |",
        "",
        "An error that ends a wait has exit code 124.",
    ]
    for hundred, title in _HUNDREDS.items():
        lines += ["", f"## {hundred}xx: {title}", "", "| code | kind | sentence | what to do |", "|---|---|---|---|"]
        lines += [_render_error(error) for error in all_errors() if error.code.startswith(hundred)]
    return "\n".join(lines) + "\n"


def _render_error(error: type[ThermoclineError]) -> str:
    kind = next(kind for branch, kind in _BRANCHES if issubclass(error, branch))
    sentence = " ".join((error.__doc__ or "").split())
    return f"| {error.code} `{error.__name__}` | {kind} | {_cell(sentence)} | {_cell(error.hint)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def render_settings_page() -> str:
    """docs/settings.md: name, variable, type, default and meaning of every setting."""
    lines = [
        "# Settings",
        "",
        _GENERATED.format(source="`src/thermocline/runtime/settings.py`"),
        "",
        "A value comes from one of four layers, the later wins: built in, file (`THERMOCLINE_CONFIG`, else",
        "`DIR/thermocline.toml`, with the names below as keys), environment (`THERMOCLINE_` and the name in capitals),",
        "flag. `thermocline settings` shows every value and the layer it came from. An unknown key or variable is an",
        "error; variables that start with `THERMOCLINE_TEST_` belong to the tests.",
        "",
        "| setting | type | default | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{key}` | {_cell(_render_type(field))} | {_render_default(field)} | {_cell(field.description or '')} |"
        for key, field in Settings.model_fields.items()
    ]
    return "\n".join(lines) + "\n"


def _render_type(field: FieldInfo) -> str:
    options = [option for option in get_args(field.annotation) if option is not NoneType]
    if get_origin(field.annotation) is Literal:
        return ", ".join(str(option) for option in options)
    kind: Any = options[0] if options else field.annotation
    name = {str: "text", int: "integer", float: "number", bool: "true or false", Path: "path"}[kind]
    bounds = [
        f"{sign} {bound:,}"
        for attribute, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"))
        for limit in field.metadata
        if (bound := getattr(limit, attribute, None)) is not None
    ]
    return " ".join([name, ", ".join(bounds)]).strip()


def _render_default(field: FieldInfo) -> str:
    match field.default:
        case None:
            return "none"
        case bool() as value:
            return str(value).lower()
        case value:
            return f"`{value}`" if str(value) else "empty"


def render_metrics_page() -> str:
    """docs/metrics.md: name, type and meaning of every metric."""
    from prometheus_client import REGISTRY

    from thermocline.api.catalog_metrics import list_metrics
    from thermocline.api.health_metrics import OBSERVATION_AGE, OBSERVATION_AGE_HELP
    from thermocline.core.health.health_conditions import CONDITIONS
    from thermocline.core.policy.iceberg_format import ICEBERG
    from thermocline.gateway import metrics

    lines = [
        "# Metrics",
        "",
        _GENERATED.format(
            source="`src/thermocline/gateway/metrics.py`, `src/thermocline/core/health/health_conditions.py` and "
            "`src/thermocline/api/catalog_metrics.py`"
        ),
        "",
        f"## Gateway: `/metrics` of `gateway_http_listen` ({metrics.__name__})",
        "",
        "| metric | type | meaning |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{_metric_name(family.name, family.type == 'counter')}` | {family.type} | {_cell(family.documentation)} |"
        for family in sorted(REGISTRY.collect(), key=lambda family: family.name)
        if family.name.startswith("thermocline_")
    ]
    lines += [
        "",
        "## Health: `/metrics` of `http_listen`",
        "",
        "Observed in the background, at most a minute old. `/readyz`, `doctor`, `show` and `status` judge by the same "
        "conditions.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
        f"| `{OBSERVATION_AGE}` | gauge | | {_cell(OBSERVATION_AGE_HELP)} |",
    ]
    lines += [
        f"| `{condition.metric}` | gauge | {'`table`' if condition.of_tables else ''} | {_cell(condition.help)} |"
        for condition in CONDITIONS
    ]
    lines += [
        "",
        "## Catalog: `/metrics` of `http_listen`",
        "",
        "Read from Postgres at each scrape; no lake and no delta is scanned.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{_metric_name(metric.name, metric.is_counter)}` | {'counter' if metric.is_counter else 'gauge'} "
        f"| {', '.join(f'`{label}`' for label in metric.labels)} | {_cell(metric.help)} |"
        for metric in list_metrics([ICEBERG])
    ]
    return "\n".join(lines) + "\n"


def _metric_name(name: str, is_counter: bool) -> str:
    return f"{name}_total" if is_counter else name


def render_types_page() -> str:
    """docs/types.md: what each engine calls the columns of a lake table."""
    lines = [
        "# Column types",
        "",
        _GENERATED.format(source="`src/thermocline/core/types/`"),
        "",
        "How the columns of a registered table look to readers of its lake. Through the seam and the gateway they have",
        "the types of Postgres. PyIceberg and Polars show the Arrow types.",
        "",
        "| Postgres | Iceberg | Spark | Trino | DuckDB | Arrow | values the lake does not hold |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_render_column_type(declared) for declared in COLUMN_TYPES.values()]
    text = LAKE_TYPES["string"]
    lines += [
        f"| every other type | {text.name} | {text.spark} | {text.trino} | {text.duckdb} | {text.arrow[0]} | |",
        "",
        f"`numeric` of more than {MAX_DECIMAL_PRECISION} digits, with a negative scale or without precision, and every",
        "other type (json, arrays, enums, ranges, intervals …) is `string` in Postgres' own text form; the seam casts",
        "it back. Nothing is rounded: a value that the lake does not hold stops the operation, which names it. Types",
        "whose text form does not read back the same everywhere (money, regclass …) are refused.",
    ]
    return "\n".join(lines) + "\n"


def _render_column_type(declared: ColumnType) -> str:
    lake = declared.lake
    suffix = "(p,s)" if lake.parameters else ""
    engines = [name and f"{name}{suffix}" for name in (lake.name, lake.spark, lake.trino, lake.duckdb)]
    arrow = f"{lake.arrow[0].rstrip('_')}{suffix}" if suffix else _render_arrow(lake.arrow)
    cells = [f"{declared.name}{suffix}", *(name or "cannot be read" for name in engines), arrow]
    return f"| {' | '.join([*cells, ', '.join(lake.not_held)])} |"


def _render_arrow(arrow: tuple[str, ...]) -> str:
    name, *arguments = arrow
    return name.rstrip("_") + (f"({', '.join(arguments)})" if arguments else "")


PAGES: Mapping[str, Callable[[], str]] = {
    "errors.md": render_errors_page,
    "metrics.md": render_metrics_page,
    "settings.md": render_settings_page,
    "types.md": render_types_page,
}


def write_pages(folder: Path) -> None:
    """Write every generated page into the folder."""
    for name, render in PAGES.items():
        (folder / name).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
