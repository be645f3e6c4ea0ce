"""verify: does every row below the cut-line read as it was written?"""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, read_settings
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.core.names import parse_table_name
from thermocline.errors import UsageError
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="schema.table; or --all", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every registered table. [default: off]", show_default=False)] = False,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Compare both tiers value by value, range by range; leaves with 1 on any difference."""
    from thermocline.ops.overview import read_overview
    from thermocline.ops.verify import verify as compare

    if (table is None) != everything:
        raise UsageError("Name one table, or --all.")
    loaded = read_settings(dir=directory, dsn=dsn)
    where = require_dsn(loaded)
    names = [table] if table is not None else [found.table for found in read_overview(where)]
    reports = [compare(where, parse_table_name(name)) for name in names]
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
