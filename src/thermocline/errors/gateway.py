"""Errors of reading lake files and of the gateway, TC5xx."""

from __future__ import annotations

from thermocline.errors.roots import RefusedError, ThermoclineError, TryAgainError


class LakeFileUnreadable(ThermoclineError):
    """A file of the lake cannot be read."""

    code = "TC501"
    hint = "No row was read from it. Check the store; `thermocline verify` names what is missing."


class UnknownSnapshot(RefusedError):
    """The lake table has no such snapshot."""

    code = "TC502"
    hint = "It was expired, or the transaction is older than the lake's retention; begin a new transaction."


class LakeTableNotServed(RefusedError):
    """The gateway serves no such lake table."""

    code = "TC503"
    hint = "The gateway serves registered tables only; `thermocline tables` lists them."


class StatementRefused(RefusedError):
    """The gateway does not run this statement."""

    code = "TC504"
    hint = "This login runs what postgres_fdw sends: SELECT over lake tables at a snapshot, cursors and transactions."


class SnapshotNotNamed(StatementRefused):
    """A read of a lake table must name its snapshot by `_snapshot = …`."""

    code = "TC505"
    hint = "Query the seam (for public.events: public_all.events); it names the published snapshot."


class GatewayNotStarted(RefusedError):
    """The gateway did not start."""

    code = "TC506"
    hint = "Correct the address or the certificate that the sentence names, and start it again."


class GatewayBusy(TryAgainError):
    """Too many statements wait for resources of the gateway."""

    code = "TC507"
    hint = "Try again, or raise gateway_evaluations."


class CandidatesTooLarge(RefusedError):
    """The statement has to be evaluated by Postgres over more lake rows than the limit allows."""

    code = "TC508"
    hint = "Add a condition on plain columns that the lake can apply, or raise gateway_candidate_limit_bytes."


class StatementTooLarge(RefusedError):
    """The statement needs more memory than one connection may use."""

    code = "TC509"
    hint = (
        "Ask for less at once (a narrower range, LIMIT, fewer columns), or raise gateway_connection_memory_bytes "
        "or gateway_spill_bytes."
    )


class WholeQueryRefused(RefusedError):
    """DuckDB cannot run the statement exactly as Postgres would."""

    code = "TC510"
    hint = "SET thermocline.engine = auto lets Postgres run what DuckDB cannot."


class LakeTextUnreadable(LakeFileUnreadable):
    """A lake file holds text that is not UTF-8."""

    code = "TC512"
    hint = (
        "The program that wrote the file wrote invalid text; no row was read from it. Leave the column out, or rewrite "
        "the file."
    )


class ExecutorCrashed(ThermoclineError):
    """The process that ran the statement ended before the statement did."""

    code = "TC513"
    hint = (
        "The session goes on, and no other session is affected. Run the statement again; if the process ends again, "
        "the gateway's log names the statement and the signal."
    )


class LakeReadDenied(RefusedError):
    """The login's role may not read the table, or one of the columns that the statement names."""

    code = "TC514"
    hint = "The role needs SELECT on the table in Postgres, or on each column that the statement names."


class RowSecurityInLake(RefusedError):
    """The heap has row-level security, which cannot be applied to rows in the lake."""

    code = "TC515"
    hint = "Disable row-level security on the table, or unregister it."
