"""`python -m bench [NAME …]`: run the named benchmarks, or all of them, write their results and draw one table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench import compaction, compaction_kernels, compaction_sort, fold, gateway, oltp, tiering, upkeep
from bench.figures import Figure, write_results

BENCHMARKS: Mapping[str, Callable[[], Sequence[Figure]]] = {
    "tiering": tiering.run,
    "fold": fold.run,
    "gateway": gateway.run,
    "oltp": oltp.run,
    "upkeep": upkeep.run,
    "compaction": compaction.run,
    "compaction_kernels": compaction_kernels.run,
    "compaction_sort": compaction_sort.run,
}


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    found: list[Figure] = []
    for name in names or BENCHMARKS:
        figures = BENCHMARKS[name]()
        print(f"bench: wrote {write_results(name, figures)}", file=sys.stderr)
        found.extend(figures)
    Console(width=160).print(render_table(found))
    return 0 if all(figure.met for figure in found) else 1


def render_table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "ours", "unit", "yardstick", "its value", "ratio", "reach", "met", "spread")
    for f in figures:
        other = "-" if f.yardstick_value is None else f"{f.yardstick_value:g}"
        ratio = "-" if f.ratio is None else f"{f.ratio:.2f}x"
        table.add_row(
            f.figure,
            f"{f.value:g}",
            f.unit,
            f.yardstick,
            other,
            ratio,
            f.reach,
            "yes" if f.met else "no",
            f"{f.spread:.0%}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
