"""Named points between the steps of every protocol, where a test may kill the process.

`THERMOCLINE_TEST_KILL_AT=name` makes the process end by SIGKILL at that point, as a crash would; without it a point
costs one look-up.
"""

from __future__ import annotations

import os
import signal

_KILL_AT = "THERMOCLINE_TEST_KILL_AT"


def fault_point(name: str) -> None:
    """Kill the process here when a test requested it."""
    if os.environ.get(_KILL_AT) == name:
        os.kill(os.getpid(), signal.SIGKILL)
