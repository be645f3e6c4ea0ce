"""A format of lake tables that the program knows nothing of: a ledger is a JSON document with pages, and too many pages
are squashed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from thermocline.catalog.maintenance.lake_stats import StatsRow
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.core.maintenance.plan import FormatChange, MaintenancePlan
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format, OperationSpec
from thermocline.core.policy.key_types import Spelling
from thermocline.core.policy.policy import Policy
from thermocline.errors import LakeTableMissing
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.context import PassContext
from thermocline.maintain.format.formats import FormatHealth, Located, Target
from thermocline.maintain.plans.planning import Planned, PlanRequest
from thermocline.runtime.pg import Connection

PLACE = "LEDGER_TEST_FOLDER"

LEDGER = Format(
    name="ledger",
    operations=(
        OperationSpec(name="squash_pages", enabled_by=("squash_enabled",), is_paced=True),
        OperationSpec(name="audit_pages", enabled_by=("audit_enabled",)),
    ),
    keys={
        "squash_enabled": (Spelling(name="squash_enabled", field="squash_enabled", kind="bool"),),
        "audit_enabled": (Spelling(name="audit_enabled", field="audit_enabled", kind="bool"),),
        "page_limit": (
            Spelling(name="page_limit", field="page_limit", kind="int"),
            Spelling(name="page_limit_dozens", field="page_limit", kind="int", factor=12),
        ),
    },
    defaults={"squash_enabled": True, "audit_enabled": False, "page_limit": 9},
    preset_values={"artemis": {"page_limit": 2}},
    totals={"pages_gone": ("squash_pages.pages_squashed",)},
    health={"pages": "Pages of a ledger."},
    properties={"ledger.page-limit": "page_limit"},
)


class Ledgers:
    """Ledgers in one folder, and the engine that squashes them."""

    name = "ledger"

    @property
    def format(self) -> Format:
        return LEDGER

    def locate(self, _conn: Connection, name: TableName) -> Located:
        path = _path(name)
        if not path.exists():
            raise LakeTableMissing(f"There is no ledger {name}.")
        told = json.loads(path.read_text())
        return Located(location=f"{path}#{told['version']}", snapshot=told["version"], properties=told["properties"])

    def engine(self, _name: str) -> Ledgers:
        return self

    def why_not_yet(
        self, _operation: Operation, _context: PassContext, _last_done: Callable[[], datetime | None]
    ) -> str | None:
        return None

    def measure_health(
        self, _conn: Connection, target: Target, policy: Policy, _before: StatsRow | None
    ) -> FormatHealth:
        pages = len(json.loads(_path(target.target.name).read_text())["pages"])
        too_many = {"pages": f"{pages} pages"} if pages > int(str(policy.own["page_limit"])) else {}
        return FormatHealth(figures={"pages": pages}, warnings=too_many)

    def plan(self, request: PlanRequest, engine: str) -> Planned:
        name = request.context.target.name
        told = json.loads(_path(name).read_text())
        pages = len(told["pages"])
        is_idle = request.operation == "audit_pages" or pages <= int(str(request.context.policy.own["page_limit"]))
        plan = MaintenancePlan(
            operation=request.operation,
            metadata_location=f"{_path(name)}#{told['version']}",
            snapshot=told["version"],
            bounds=Bounds(),
            change=None if is_idle else FormatChange(sentence=f"would squash {pages} pages"),
            idle=f"{pages} pages are well" if is_idle else None,
        )
        return Planned(plan=plan)

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        path = _path(applier.context.target.name)
        told = json.loads(path.read_text())
        pages = told["pages"]
        path.write_text(
            json.dumps({**told, "version": told["version"] + 1, "pages": [[line for page in pages for line in page]]})
        )
        return Outcome(
            operation=plan.operation,
            status="done",
            sentence=f"squashed {len(pages)} pages into 1",
            counters={"pages_squashed": len(pages)},
        )


def _path(name: TableName) -> Path:
    return Path(os.environ[PLACE]) / f"{name.schema}.{name.table}.json"
