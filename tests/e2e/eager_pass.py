"""A maintenance pass with the most eager policy, dated a month ahead."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.twin import Spanning

from thermocline.catalog.tables import find_table
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.runtime.pg import connect_as_typed as connect


@contextmanager
def eager_pass(spanning: Spanning, **policy: Any) -> Iterator[PassContext]:
    """Run a pass dated a month ahead that keeps one snapshot."""
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        registered = find_table(conn, spanning.name)
        yield PassContext(
            conn=conn,
            dsn=spanning.dsn,
            spark=spanning.spark,
            settings=spanning.settings,
            target=LakeTarget(name=TableName(registered.lake_namespace, registered.lake_name), registered=registered),
            policy=Policy(
                **{
                    "snapshot_min_retained": 1,
                    "snapshot_retention_ms": 1,
                    "manifest_rewrite_min_manifests": 2,
                    **policy,
                }
            ),
            now=datetime.now(UTC) + timedelta(days=30),
            worker="test",
            pass_id=uuid.uuid4(),
        )
