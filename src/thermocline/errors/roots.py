"""The root of the tree of errors and its branches, TC0xx."""

from __future__ import annotations


class ThermoclineError(Exception):
    """An unexpected failure."""

    code = "TC000"
    hint = ""
    exit_code = 1

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or " ".join((type(self).__doc__ or "").split())
        if hint is not None:
            self.hint = hint
        super().__init__(self.message)


class RefusedError(ThermoclineError):
    """The request was refused; nothing was changed."""

    code = "TC001"
    exit_code = 3


class UsageError(RefusedError):
    """The command or one of its arguments is not valid."""

    code = "TC002"
    exit_code = 2


class TryAgainError(ThermoclineError):
    """Not possible now; the next cycle tries again."""

    code = "TC003"
    hint = "Nothing is lost; it is tried again by itself, or run the command again."


class OutcomeUnknownError(ThermoclineError):
    """The outcome is not known; nothing was touched after it."""

    code = "TC004"
    exit_code = 4
    hint = "Look before retrying: `thermocline doctor` names what is unfinished."


class PostgresFailed(ThermoclineError):
    """Postgres reported an error."""

    code = "TC005"


class Interrupted(ThermoclineError):
    """Stopped by Ctrl-C."""

    code = "TC006"
    exit_code = 130
    hint = "The same command goes on from where it was; `thermocline doctor` names what is unfinished."
