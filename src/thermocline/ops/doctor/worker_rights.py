"""The rights of the role that a worker has: each one it lacks as the statement that gives it."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.core.health.finding import Finding
from thermocline.runtime import pg

_QUERIES = pg.load_queries("thermocline.ops", "queries/doctor.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRights:
    """A role, and the GRANT statements that are missing for it to run cycles over every registered table."""

    role: str
    statements: tuple[str, ...]


def read_missing_rights(conn: pg.Connection) -> MissingRights | None:
    """The rights of the role of the newest live worker, or of ours; None where there is no catalog. Whoever may not
    read the catalog is told that right alone: it names the others."""
    own = conn.execute(_QUERIES["missing_membership"]).fetchone()
    if own is None:
        return None
    row = own if own[1] else conn.execute(_QUERIES["missing_rights"]).fetchone()
    assert row is not None
    return MissingRights(role=row[0], statements=tuple(row[1]))


def judge_rights(missing: MissingRights) -> Finding:
    if not missing.statements:
        return Finding(
            check="rights of the worker", verdict="ok", seen=f"{missing.role} may change every registered table"
        )
    only_later = all("pg_read_all_stats" in statement for statement in missing.statements)
    return Finding(
        check="rights of the worker",
        verdict="warning" if only_later else "red",
        seen=f"{missing.role} lacks {len(missing.statements)} of the rights that its cycles need",
        fix=" ".join(missing.statements),
    )
