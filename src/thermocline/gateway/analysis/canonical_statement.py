"""A statement in the canonical form that Postgres prints: names qualified, constants typed, operators resolved."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.gateway.sql.values import NotProvable, parse_array, parse_int

_COLUMNS = 5
_BEGIN, _END = "BEGIN ATOMIC\n", ";\nEND"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSettings:
    """The settings of a session under which Postgres reads a text."""

    role: str
    path: tuple[str, ...]
    time_zone: str
    date_style: str
    interval_style: str
    has_standard_strings: bool
    nulls_are_equal: bool
    array_nulls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisKey:
    """What decides the canonical form of a text, apart from the catalog."""

    text: str
    parameter_oids: tuple[int, ...]
    settings: ReadingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalStatement:
    """The analysed statement.

    `relation_oids` are the relations it names, and `definitions` is a hash of how they are defined and found on the
    search path; `has_own_objects`: it uses functions, operators, types or collations that are not Postgres' own.
    """

    text: str
    relation_oids: tuple[int, ...]
    definitions: str
    has_own_objects: bool

    @property
    def size_bytes(self) -> int:
        return len(self.text) * 2 + len(self.relation_oids) * 32 + 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRow:
    """The row of the query of an analysis. `xid` is the transaction id that the analysis was given."""

    statement: CanonicalStatement
    xid: str | None


def parse_analysis_row(row: tuple[str | None, ...]) -> AnalysisRow:
    """Raises `NotProvable` where the body of the function is not one plain statement."""
    if len(row) != _COLUMNS:
        raise NotProvable("Postgres does not find the function again, as behind a pool of connections")
    body, relations, has_own_objects, definitions, xid = row
    if body is None or relations is None or definitions is None:
        raise NotProvable("Postgres prints no canonical form of this statement")
    oids = tuple(parse_int(oid) for oid in parse_array(relations) if oid is not None)
    return AnalysisRow(
        statement=CanonicalStatement(
            text=strip_body(body), relation_oids=oids, definitions=definitions, has_own_objects=has_own_objects != "f"
        ),
        xid=xid,
    )


def strip_body(body: str) -> str:
    """The statement inside `BEGIN ATOMIC … END`."""
    if not body.startswith(_BEGIN) or not body.endswith(_END):
        raise NotProvable("Postgres prints the body of a function in a form that is not known")
    return body.removeprefix(_BEGIN).removesuffix(_END).strip()
