"""tables: the registered tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from thermocline.cli.options import DirOption, DsnOption, JsonOption, read_settings
from thermocline.cli.output import print_json, print_lines, print_table
from thermocline.stack.locate import require_dsn

if TYPE_CHECKING:
    from thermocline.ops.inspect.overview import TableOverview


def add_commands(app: typer.Typer) -> None:
    app.command("tables")(tables)


def tables(directory: DirOption = None, dsn: DsnOption = None, json: JsonOption = False) -> None:
    """List the registered tables with their cut-lines."""
    from thermocline.ops.inspect.overview import read_overview

    loaded = read_settings(dir=directory, dsn=dsn)
    found = read_overview(require_dsn(loaded), connect_timeout_seconds=loaded.values.connect_timeout_seconds)
    if json:
        print_json(found)
    elif not found:
        print_lines(["no table is registered"])
    else:
        headings = ["table", "seam", "T", "partitions hot/tiered/dropped", "rows tiered", "corrections", "unfinished"]
        print_table(
            headings,
            (
                [
                    *(
                        render_name(t),
                        t.seam,
                        t.cut_line,
                        f"{t.hot_partitions}/{t.tiered_partitions}/{t.dropped_partitions}",
                    ),
                    *(f"{t.rows_tiered:,}", t.pending_corrections, t.unfinished_ops),
                ]
                for t in found
            ),
        )


def render_name(table: TableOverview) -> str:
    """The table's name with what keeps its partitions from moving."""
    if table.paused_since:
        return f"{table.table} (paused)"
    return table.table if table.started_at else f"{table.table} (not started)"
