"""A fold in a process of its own, for tests that kill it: `python fold_child.py SETTINGS_JSON`."""

from __future__ import annotations

import sys

from thermocline.core.names import parse_table_name
from thermocline.ops.fold import fold
from thermocline.ops.sessions import spark_source
from thermocline.settings import Settings

if __name__ == "__main__":
    settings = Settings.model_validate_json(sys.argv[1])
    assert settings.dsn is not None
    print(fold(settings.dsn, parse_table_name("public.events"), settings=settings, spark=spark_source(settings.dsn, settings)).sentence)
