"""verify: does every row below the cut-line read as it was written?"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, read_settings
from thermocline.cli.output import print_json, print_lines, print_table, tell
from thermocline.core.names import TableName, parse_table_name
from thermocline.core.verification import VerifyReport
from thermocline.errors import NameNotTyped, UsageError
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="schema.table; or --all", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every registered table. [default: off]", show_default=False)] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Correct the ranges that differ from the heap; asks for the table's name. [default: off]", show_default=False
        ),
    ] = False,
    yes: Annotated[
        str | None,
        typer.Option(
            "--yes", metavar="NAME", help="The table's name, for scripts that repair. [default: it is asked for]", show_default=False
        ),
    ] = None,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Compare both tiers value by value, range by range; leaves with 1 on any difference."""
    from thermocline.ops.overview import read_overview
    from thermocline.ops.verify import verify as compare

    if (table is None) != everything:
        raise UsageError("Name one table, or --all.")
    if repair and table is None:
        raise UsageError("Only one table at a time is repaired: name it.")
    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    names = [table] if table is not None else [found.table for found in read_overview(where)]
    reports = [compare(where, parse_table_name(name)) for name in names]
    if repair and not reports[0].is_exact:
        reports = [_repaired(where, parse_table_name(names[0]), reports[0], yes)]
    if json:
        print_json([{"ok": report.is_exact, "sentence": report.sentence, "report": report} for report in reports])
    else:
        for report in reports:
            print_table(
                ["range", "from", "to", "against", "rows", "checksum", "verdict"],
                ([v.range, v.lower, v.upper, v.yardstick, f"{v.rows:,}", v.checksum, "FAIL" if v.problem else "ok"] for v in report.ranges),
            )
            keys = [f"  {verdict.range}, key {key}" for verdict in report.ranges for key in verdict.keys]
            print_lines([report.sentence, *keys, *report.notes])
    if not all(report.is_exact for report in reports):
        raise typer.Exit(1)


def _repaired(where: str, name: TableName, report: VerifyReport, given: str | None) -> VerifyReport:
    """The table compared once more, after what differs from the heap was corrected; its name must be typed first."""
    from thermocline.ops.repair import check_repairable, repair
    from thermocline.ops.verify import verify as compare

    ranges = check_repairable(report)
    tell(report.sentence)
    if given is None and sys.stdin.isatty():
        given = str(typer.prompt(f"Rows below the cut-line will be corrected from the heap. Type {name} to repair it", err=True))
    if given != str(name):
        raise NameNotTyped(
            f"{name} is not repaired: its name was not given.", hint="Type the name when asked, or give it by --yes in a script."
        )
    tell(repair(where, name, ranges).sentence)
    return compare(where, name)
