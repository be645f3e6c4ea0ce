"""Orphans moved aside or back in a process that tests kill: `python -m tests.faults.quarantine_child VERB DSN LAKE_ID
LOCATION`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from thermocline.catalog.safety import Owner
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.lake.files.listing import list_files
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.maintain.operations.quarantine import (
    empty_quarantine,
    quarantine_files,
    read_overdue,
    restore_quarantined,
    settle_moves,
)
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

HOUR_MS = 3_600_000


def no_spark() -> Any:
    raise AssertionError("quarantine needs no Spark")


def main(verb: str, dsn: str, lake_id: str, location: str) -> None:
    with connect(dsn, autocommit=True) as conn:
        context = PassContext(
            conn=conn,
            dsn=dsn,
            spark=no_spark,
            settings=Settings(dsn=dsn),
            target=LakeTarget(name=TableName("lab", "events"), lake_id=int(lake_id)),
            policy=Policy(orphan_quarantine_ms=HOUR_MS),
            now=datetime.now(UTC),
            worker="child",
        )
        needed = NeededFiles("lab.events", [location])
        match verb:
            case "aside":
                settle_moves(context)
                print(
                    quarantine_files(
                        context, location, needed.judge(list(list_files(location))).deletable, lambda _: None
                    )[0]
                )
            case "empty":
                settle_moves(context)
                print(empty_quarantine(context, read_overdue(context), needed, lambda files: files, print))
            case "back":
                print(restore_quarantined(conn, Owner(lake_id=int(lake_id))).back)


if __name__ == "__main__":
    main(*sys.argv[1:])
