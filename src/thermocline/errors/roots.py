"""The root of the tree of errors and its branches."""

from __future__ import annotations


class ThermoclineError(Exception):
    """Something went wrong."""

    code = "TC000"
    hint = ""
    exit_code = 1

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        if hint is not None:
            self.hint = hint
        super().__init__(self.message)


class RefusedError(ThermoclineError):
    """Refused; nothing was changed."""

    code = "TC001"
    exit_code = 3


class UsageError(RefusedError):
    """The request is not valid."""

    code = "TC002"
    exit_code = 2


class TryAgainError(ThermoclineError):
    """Not now; the next cycle will try again."""

    code = "TC003"
    hint = "Nothing is lost; it is tried again by itself, or run the command again."


class OutcomeUnknownError(ThermoclineError):
    """The outcome is not known; nothing was touched after it."""

    code = "TC004"
    exit_code = 4
    hint = "Look before retrying: `thermocline doctor` names what is unfinished."
