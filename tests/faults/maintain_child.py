"""A pass of maintenance in a process of its own, for tests that kill it: `python -m tests.faults.maintain_child
SETTINGS_JSON`."""

from __future__ import annotations

import sys

from tests.faults.borrowed_spark import borrow_spark

from thermocline.core.names import parse_table_name
from thermocline.maintain.operations import remove_orphans as orphans
from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.runtime.settings import Settings

if __name__ == "__main__":
    settings = Settings.model_validate_json(sys.argv[1])
    assert settings.dsn is not None
    borrow_spark()
    orphans._SAVE_EVERY_SECONDS = 0  # so that a listing of a moment notes how far it is
    source = lazy_spark_session(settings.dsn, settings)
    print(
        run_pass(
            settings.dsn, parse_table_name("public.events"), settings=settings, spark=source, request=PassRequest()
        ).sentence
    )
