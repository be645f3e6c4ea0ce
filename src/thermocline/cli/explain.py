"""explain: which tiers a statement touches, why, and what it would cost; nothing is run."""

from __future__ import annotations

from typing import Annotated

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, option, read_settings
from thermocline.cli.output import print_json, print_lines
from thermocline.stack.locate import require_dsn


def add_commands(app: typer.Typer) -> None:
    app.command("explain")(explain)


def explain(
    statement: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, INSERT, UPDATE, DELETE, MERGE or COPY.")],
    search_path: Annotated[
        str | None,
        option("--search-path", "As the role would have set it: 'public_all, public'.", default="the role's own"),
    ] = None,
    directory: DirOption = None,
    dsn: DsnOption = None,
    json: JsonOption = False,
) -> None:
    """Show which tiers a statement touches, where its rows go and its cost in the lake, without running it."""
    from thermocline.core.explain import render_explanation
    from thermocline.ops.inspect.explain import explain as plan

    where = require_dsn(read_settings(dir=directory, dsn=dsn))
    report = plan(where, statement, search_path=search_path)
    if any(table.questions for table in report.tables):
        from thermocline.gateway.lake_arm.scan_cost import add_lake_costs  # loads the engine's libraries

        report = add_lake_costs(where, report)
    if json:
        print_json(report)
    else:
        print_lines(render_explanation(report))
