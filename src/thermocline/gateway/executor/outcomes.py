"""How a statement ends other than by its last row, as an exception and as the bytes that carry it between processes."""

from __future__ import annotations

import json
import traceback

from thermocline import errors
from thermocline.errors import ThermoclineError
from thermocline.gateway.sql.values import NotProvable


class Cancelled(Exception):
    """The statement was stopped on request."""


class ExecutorFailed(Exception):
    """An unexpected exception in an executor, with its traceback as the message."""


def encode_problem(problem: BaseException) -> bytes:
    """The exception, for `decode_problem` in the gateway's process."""
    match problem:
        case Cancelled():
            told = {"kind": "cancelled"}
        case NotProvable():
            told = {"kind": "not provable", "message": str(problem)}
        case MemoryError():
            told = {"kind": "memory", "message": str(problem)}
        case ThermoclineError():
            told = {
                "kind": "named",
                "name": type(problem).__name__,
                "message": problem.message,
                "hint": problem.hint,
            }
        case _:
            told = {"kind": "other", "message": "".join(traceback.format_exception(problem))}
    return json.dumps(told).encode()


def decode_problem(data: bytes | memoryview) -> Exception:
    """The exception that an executor sent. It is read as data: an executor can make the gateway raise only these."""
    told = json.loads(bytes(data))
    match told["kind"]:
        case "cancelled":
            return Cancelled()
        case "not provable":
            return NotProvable(told["message"])
        case "memory":
            return MemoryError(told["message"])
        case "named":
            kind = getattr(errors, told["name"], ThermoclineError)
            known = isinstance(kind, type) and issubclass(kind, ThermoclineError)
            return (kind if known else ThermoclineError)(told["message"], hint=told["hint"])
    return ExecutorFailed(told["message"])
