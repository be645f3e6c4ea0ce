"""Log lines on stderr: one line each, as text for people or as JSON for machines.

An error of ours that a line names is written with its code, `TC401: …`; as JSON the code is a field too.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from thermocline.errors import ThermoclineError

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(f" {name}={value}" for name, value in _extras(record).items())
        line = (
            f"{_utc(record)} {record.levelname.lower():<7} {record.name.removeprefix('thermocline.')}: "
            f"{_message(record)}{extra}"
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if code := _code(record):
            fields["code"] = code
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({**fields, **_extras(record)}, default=str, ensure_ascii=False)


def configure_logging(form: Literal["text", "json"] = "text", level: str = "info") -> None:
    """Send our log lines to stderr in this form; other libraries only from warnings up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("thermocline").setLevel(level.upper())


def _message(record: logging.LogRecord) -> str:
    """The message, in which every error of ours begins with its code."""
    if not isinstance(record.args, tuple):
        return record.getMessage()
    args = tuple(f"{arg.code}: {arg}" if isinstance(arg, ThermoclineError) else arg for arg in record.args)
    return str(record.msg) % args if args else str(record.msg)


def _code(record: logging.LogRecord) -> str | None:
    """The code of the error that the line is about: the first of its arguments, else what it was logged with."""
    raised = record.exc_info[1] if record.exc_info else None
    args = record.args if isinstance(record.args, tuple) else ()
    return next((error.code for error in (*args, raised) if isinstance(error, ThermoclineError)), None)


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}


def _utc(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
