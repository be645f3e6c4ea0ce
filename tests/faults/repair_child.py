"""A repair of manifests in a process of its own, for tests that kill it: `python -m tests.faults.repair_child
SETTINGS_JSON`."""

from __future__ import annotations

import sys

from tests.faults.borrowed_spark import borrow_spark

from thermocline.core.names import parse_table_name
from thermocline.maintain.manifest_repair import repair_table_manifests
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.runtime.settings import Settings

if __name__ == "__main__":
    settings = Settings.model_validate_json(sys.argv[1])
    assert settings.dsn is not None
    borrow_spark()
    source = lazy_spark_session(settings.dsn, settings)
    print(
        repair_table_manifests(
            settings.dsn, parse_table_name("public.events"), settings=settings, spark=source
        ).sentence
    )
