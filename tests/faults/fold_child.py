"""A fold in a process of its own, for tests that kill it: `python -m tests.faults.fold_child SETTINGS_JSON`."""

from __future__ import annotations

import sys

from tests.faults.borrowed_spark import borrow_spark

from thermocline.core.names import parse_table_name
from thermocline.ops.fold import fold
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.runtime.settings import Settings

if __name__ == "__main__":
    settings = Settings.model_validate_json(sys.argv[1])
    assert settings.dsn is not None
    borrow_spark()
    print(
        fold(
            settings.dsn,
            parse_table_name("public.events"),
            settings=settings,
            spark=lazy_spark_session(settings.dsn, settings),
        ).sentence
    )
