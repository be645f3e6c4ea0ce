"""The failure of a request, as its row in the catalog stores it and the client that waits for it raises it again."""

from __future__ import annotations

from typing import Any

import psycopg

from thermocline.errors import ThermoclineError
from thermocline.runtime.pg import postgres_failed


def render_failure(problem: ThermoclineError | psycopg.Error) -> dict[str, Any]:
    """Sentence, hint, code and exit code of the problem."""
    failure = problem if isinstance(problem, ThermoclineError) else postgres_failed(problem)
    return {"message": failure.message, "hint": failure.hint, "code": failure.code, "exit_code": failure.exit_code}
