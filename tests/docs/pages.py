"""Which pages tests follow, what each finds in place, and with which stack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

README = "README.md"
"""Starts the stack that the pages below go on with."""

MAKE_LAKE_TABLE = Path(__file__).parent / "make_lake_table.py"
BEFORE = Path(__file__).parent / "before.sql"
PLAIN, TIERED = "plain", "tiered"
SCENES = {
    PLAIN: "",
    TIERED: "thermocline register public.events\nthermocline tier public.events\n",
}
"""Commands on the tables of before.sql that a page takes for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, what it finds, and whether it leaves that to the next page."""

    name: str
    scene: str
    leaves_scene: bool = True
    before: str = ""


WITH_THE_STACK_OF_README = (
    Page(name="docs/quickstart.md", scene=PLAIN, leaves_scene=False),
    Page(name="docs/lifecycle.md", scene=PLAIN, leaves_scene=False),
    Page(name="docs/explain.md", scene=TIERED),
    Page(name="docs/gateway.md", scene=TIERED),
    Page(name="docs/reading-the-lake.md", scene=TIERED),
    Page(name="docs/maintenance.md", scene=TIERED, before=f"python {MAKE_LAKE_TABLE} sales.orders"),
)

OWN_POSTGRES = "docs/own-postgres.md"
FOLLOWED = (README, OWN_POSTGRES, *(page.name for page in WITH_THE_STACK_OF_README))
