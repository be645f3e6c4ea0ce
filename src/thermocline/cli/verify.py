"""verify: does every row below the cut-line read as it was written?"""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.confirm import check_name_typed
from thermocline.cli.options import (
    DirOption,
    DsnOption,
    JsonOption,
    flag,
    option,
    read_settings,
    read_table_name,
    table_argument,
)
from thermocline.cli.output import print_json, print_lines, print_message, print_table
from thermocline.cli.progress import show_progress
from thermocline.core.manifest_entry import EntryProblem
from thermocline.core.names import TableName, parse_table_name
from thermocline.core.verification import ManifestReport, VerifyReport
from thermocline.errors import UsageError
from thermocline.runtime.settings import Settings
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    table: Annotated[
        str | None,
        table_argument("a table, also namespace.table of a lake table; or --all"),
    ] = None,
    everything: Annotated[bool, flag("--all", "Every registered table.")] = False,
    repair: Annotated[
        bool,
        flag("--repair", "Write wrong manifest entries again, correct ranges from the heap; asks for the name."),
    ] = False,
    yes: Annotated[
        str | None,
        option("--yes", "The table's name, for scripts that repair.", default="it is asked for", metavar="NAME"),
    ] = None,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Compare both tiers value by value, and manifests with their files; leaves with 1 on any difference."""
    from thermocline.maintain.verify_any import verify_any
    from thermocline.ops.inspect.overview import read_overview

    if (table is None) != everything:
        raise UsageError("Name one table, or --all.")
    if repair and table is None:
        raise UsageError("Only one table at a time is repaired: name it.")
    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    names = (
        [read_table_name(loaded, table)]
        if table is not None
        else [parse_table_name(found.table) for found in read_overview(where)]
    )
    with show_progress(silent=json) as report_progress:
        reports = [verify_any(where, name, report_progress) for name in names]
    if repair and not reports[0].is_exact:
        reports = [_repair_and_verify(loaded.values, where, names[0], reports[0], yes)]
    if json:
        print_json(
            [
                {"ok": report.is_exact, "sentence": report.sentence, "report": _render_document(report)}
                for report in reports
            ]
        )
    else:
        for report in reports:
            _print(report)
    if not all(report.is_exact for report in reports):
        raise typer.Exit(1)


def _render_document(report: VerifyReport | ManifestReport) -> object:
    """A report as JSON has it."""
    if isinstance(report, VerifyReport):
        return report
    return {
        "table": report.table,
        "snapshot": report.snapshot,
        "files": report.files,
        "manifests": report.problems,
        "notes": report.notes,
    }


def _print(report: VerifyReport | ManifestReport) -> None:
    wrong = report.manifests if isinstance(report, VerifyReport) else report.problems
    keys: list[str] = []
    if isinstance(report, VerifyReport):
        print_table(
            ["range", "from", "to", "against", "rows", "checksum", "verdict"],
            (
                [v.range, v.lower, v.upper, v.yardstick, f"{v.rows:,}", v.checksum, "FAIL" if v.problem else "ok"]
                for v in report.ranges
            ),
        )
        keys = [f"  {verdict.range}, key {key}" for verdict in report.ranges for key in verdict.keys]
    print_lines([report.sentence, *keys, *(f"  manifest: {problem}" for problem in wrong), *report.notes])


def _repair_and_verify(
    loaded: Settings, where: str, name: TableName, report: VerifyReport | ManifestReport, given: str | None
) -> VerifyReport | ManifestReport:
    """The table compared once more, after manifests were put right and what differs from the heap was corrected; its
    name must be typed first."""
    from thermocline.maintain.manifest_repair import repair_table_manifests
    from thermocline.maintain.verify_any import verify_any
    from thermocline.ops.requests.lazy_spark import lazy_spark_session
    from thermocline.ops.verify.repair import check_repairable, repair

    wrong = report.manifests if isinstance(report, VerifyReport) else report.problems
    ranges = check_repairable(report) if isinstance(report, VerifyReport) else ()
    print_message(report.sentence)
    check_name_typed(
        name, given, flag="--yes", warning=f"{_describe_repair(wrong, ranges)}.", refusal=f"{name} is not repaired"
    )
    if wrong:
        print_message(
            repair_table_manifests(where, name, settings=loaded, spark=lazy_spark_session(where, loaded)).sentence
        )
    if ranges:
        print_message(repair(where, name, ranges, loaded).sentence)
    return verify_any(where, name)


def _describe_repair(wrong: tuple[EntryProblem, ...], ranges: tuple[str, ...]) -> str:
    repairs = ["manifest entries will be written again from the files"] if wrong else []
    repairs += ["rows below the cut-line will be corrected from the heap"] if ranges else []
    return " and ".join(repairs).capitalize()
