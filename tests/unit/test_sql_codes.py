"""Errors that our SQL raises carry the code of the class for the same problem, spelled as everywhere else."""

from __future__ import annotations

import re
from pathlib import Path

import thermocline
from thermocline.errors import ThermoclineError
from thermocline.errors.gateway import RowSecurityInLake
from thermocline.errors.inspection import NotExplainable, PinHeldByOther
from thermocline.errors.table import HeapChanged, NotRegistered
from thermocline.errors.tiering import SchemaNotFollowed

SOURCES = Path(thermocline.__file__).parent
CODES: dict[str, type[ThermoclineError]] = {
    "catalog/functions/check_pin_holder.sql": PinHeldByOther,
    "catalog/functions/explain_json.sql": NotExplainable,
    "catalog/functions/explainable.sql": NotExplainable,
    "catalog/functions/pin.sql": NotRegistered,
    "catalog/functions/refuse_row_security.sql": RowSecurityInLake,
    "catalog/functions/spanning_table.sql": NotRegistered,
    "catalog/functions/version_at.sql": NotRegistered,
    "seam/templates/capture.sql": SchemaNotFollowed,
    "seam/templates/routing.sql": HeapChanged,
}


def test_sql_raises_the_codes_of_our_errors() -> None:
    found = {
        str(path.relative_to(SOURCES)): set(re.findall(r"raise exception '(TC\d{3}): ", path.read_text("utf-8")))
        for folder in ("catalog/functions", "seam/templates")
        for path in sorted((SOURCES / folder).glob("*.sql"))
    }
    assert {name: codes for name, codes in found.items() if codes} == {
        name: {error.code} for name, error in CODES.items()
    }
