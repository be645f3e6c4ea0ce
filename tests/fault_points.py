"""Do something at the fault points of the program, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest


def patch_fault_points(monkeypatch: pytest.MonkeyPatch, call: Callable[[str], None]) -> None:
    """Call this with the name of each point that a protocol passes, whichever module the point is in."""
    for name, module in list(sys.modules.items()):
        if name.startswith("thermocline.") and hasattr(module, "fault_point"):
            monkeypatch.setattr(module, "fault_point", call)
