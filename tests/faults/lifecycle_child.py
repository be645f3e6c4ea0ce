"""register or unregister in a process of its own, for tests that kill it: `python lifecycle_child.py SETTINGS_JSON VERB
CHOICES_JSON`."""

from __future__ import annotations

import json
import sys

from thermocline.core.names import parse_table_name
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.register.unregistration import unregister
from thermocline.runtime.settings import Settings

if __name__ == "__main__":
    settings = Settings.model_validate_json(sys.argv[1])
    choices = json.loads(sys.argv[3])
    name = parse_table_name("public.events")
    assert settings.dsn is not None
    if sys.argv[2] == "register":
        print(register(settings.dsn, RegisterRequest(table=name, premake=0, **choices), settings=settings))
    else:
        print(unregister(settings.dsn, name, settings=settings, **choices))
