"""Errors of the gateway, TC5xx."""

from __future__ import annotations

from thermocline.errors.roots import RefusedError, ThermoclineError, TryAgainError


class LakeFileUnreadable(ThermoclineError):
    """A file of the lake cannot be read."""

    code = "TC501"
    hint = "Nothing was answered from it. Check the store; `thermocline verify` names what is missing."


class UnknownSnapshot(RefusedError):
    """The lake has no such snapshot."""

    code = "TC502"
    hint = "It was expired, or the transaction is older than the lake's retention; begin a new transaction."


class UnknownLakeTable(RefusedError):
    """There is no such table in the lake."""

    code = "TC503"
    hint = "The gateway answers for registered tables only; `thermocline tables` lists them."


class StatementRefused(RefusedError):
    """The gateway does not run this statement."""

    code = "TC504"
    hint = "This login runs what postgres_fdw sends: SELECT over lake tables at a snapshot, cursors and transactions."


class SnapshotMissing(StatementRefused):
    """A read of a lake table must say at which snapshot, by `_snapshot = …`."""

    code = "TC505"
    hint = "Query the seam (for public.events: public_all.events); it names the published snapshot."


class GatewayBusy(TryAgainError):
    """Too many statements wait to be evaluated by Postgres."""

    code = "TC507"
    hint = "Try again, or raise gateway_evaluations."


class CandidatesTooLarge(RefusedError):
    """The statement has to be evaluated by Postgres over more lake rows than the limit allows."""

    code = "TC508"
    hint = "Add a condition on plain columns that the lake can apply, or raise gateway_candidate_limit_bytes."


class LakeTextUnreadable(LakeFileUnreadable):
    """A lake file holds text that is not UTF-8."""

    code = "TC512"
    hint = (
        "Whoever wrote the file wrote it wrongly; nothing was answered from it. Leave the column out, or rewrite "
        "the file."
    )


class StatementTooLarge(RefusedError):
    """The statement needs more memory than one connection may use."""

    code = "TC509"
    hint = (
        "Ask for less at once (a narrower range, LIMIT, fewer columns), or raise gateway_connection_memory_bytes "
        "or gateway_spill_bytes."
    )


class WholeQueryRefused(RefusedError):
    """The statement cannot be answered by DuckDB exactly as Postgres would."""

    code = "TC510"
    hint = "SET thermocline.engine = auto lets Postgres answer what DuckDB cannot."


class GatewayNotStarted(RefusedError):
    """The gateway did not start."""

    code = "TC506"
