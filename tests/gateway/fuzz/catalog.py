"""What Postgres can compute, read from its own catalogs: types, operators, functions, aggregates and casts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from tests.gateway.fuzz.values import VALUES

POLYMORPHIC = ("anyelement", "anynonarray", "anycompatible", "anycompatiblenonarray", "anyarray", "anycompatiblearray")
CONCRETE = ("int4", "numeric", "text", "timestamptz", "uuid")
"""The types that polymorphic signatures are tried with."""

UNSUITABLE = (
    r"^(pg_|has_|binary_upgrade|txid_|inet_client|inet_server|current_|lo_|to_reg|.*_to_xml|.*privilege|row_security"
    r"|getdatabaseencoding|version|obj_description|shobj_description|col_description|format_type|factorial|age$"
    r"|date_cache|nextval|currval|lastval|setval|now$|statement_timestamp|transaction_timestamp|amvalidate|ri_|.*_transform"
    r"|makeaclitem|acl|hashvalidate|.*_support|gist_|gin_|brin_|spg_|shift_jis|unique_key|suppress_|trigger_|fmgr_"
    r"|mxid_age|in_range|ts_|numnode|querytree|get_current_ts_config|random|setseed|icu_|pg)"
)
"""Functions that depend on the server, the session or the search path, or that take a long time on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """An operator, function, aggregate or cast by its exact types; an operator without a left operand has one
    argument."""

    name: str
    arguments: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Signatures by the type of their result."""

    operators: Mapping[str, Sequence[Signature]]
    functions: Mapping[str, Sequence[Signature]]
    aggregates: Mapping[str, Sequence[Signature]]
    windows: Mapping[str, Sequence[Signature]]
    casts: Mapping[str, Sequence[Signature]]
    type_oids: Mapping[str, int]
    collations: tuple[str, ...]

    @property
    def signature_count(self) -> int:
        groups = (self.operators, self.functions, self.aggregates, self.windows, self.casts)
        return sum(len(found) for group in groups for found in group.values())


_OPERATORS = """
select o.oprname, array_remove(array[l.typname::text, r.typname::text], null), t.typname
  from pg_operator o left join pg_type l on l.oid = o.oprleft join pg_type r on r.oid = o.oprright
  join pg_type t on t.oid = o.oprresult join pg_proc p on p.oid = o.oprcode
 where o.oprnamespace = 'pg_catalog'::regnamespace and p.provolatile <> 'v'
 order by 1, 2, 3
"""
_FUNCTIONS = """
select p.proname, (select coalesce(array_agg(t.typname::text order by a.at), '{}')
                     from unnest(p.proargtypes) with ordinality a(type, at) join pg_type t on t.oid = a.type), r.typname
  from pg_proc p join pg_type r on r.oid = p.prorettype left join pg_aggregate g on g.aggfnoid = p.oid
 where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = %(kind)s and not p.proretset and p.provariadic = 0
   and coalesce(g.aggkind, 'n') = 'n' and p.proname !~ %(unsuitable)s
   and (p.provolatile = 'i' or (p.provolatile = 's' and p.prokind = 'f' and (
        p.proname ~ '^(to_char|to_number|to_date|to_timestamp|array_to_string|quote_|json|to_json|row_to_json|convert)'
        or p.proargtypes::oid[] && array['timestamptz', 'timestamp', 'date', 'timetz']::regtype[]::oid[])))
 order by 1, 2, 3
"""
_CASTS = """
select '', array[s.typname::text], t.typname
  from pg_cast c join pg_type s on s.oid = c.castsource join pg_type t on t.oid = c.casttarget
 order by 1, 2, 3
"""


def read_catalog(conn: psycopg.Connection[Any]) -> Catalog:
    """All signatures whose arguments and result are types that there are values for."""
    kinds = {
        kind: conn.execute(_FUNCTIONS, {"kind": kind, "unsuitable": UNSUITABLE}).fetchall() for kind in ("f", "a", "w")
    }
    collations = [
        row[0]
        for row in conn.execute(
            "select quote_ident(collname) from pg_collation where collname in"
            " ('C', 'POSIX', 'default', 'en_US.utf8', 'C.utf8', 'und-x-icu', 'de-x-icu', 'ucs_basic', 'pg_c_utf8')"
            " and collencoding in (-1, 6) order by 1"
        )
    ]
    oids = conn.execute("select typname, oid::int from pg_type where typnamespace = 'pg_catalog'::regnamespace")
    return Catalog(
        operators=_by_result(conn.execute(_OPERATORS).fetchall()),
        functions=_by_result(kinds["f"]),
        aggregates=_by_result(kinds["a"]),
        windows=_by_result(kinds["w"]),
        casts=_by_result(conn.execute(_CASTS).fetchall()),
        type_oids=dict(oids.fetchall()),
        collations=tuple(collations),
    )


def _by_result(rows: Sequence[tuple[Any, ...]]) -> Mapping[str, Sequence[Signature]]:
    found: dict[str, list[Signature]] = defaultdict(list)
    for name, arguments, result in rows:
        for concrete in CONCRETE if {*arguments, result} & set(POLYMORPHIC) else ("",):
            signature = Signature(
                name=name,
                arguments=tuple(_instantiated(argument, concrete) for argument in arguments),
                result=_instantiated(result, concrete),
            )
            if {*signature.arguments, signature.result} <= set(VALUES):
                found[signature.result].append(signature)
    return found


def _instantiated(name: str, concrete: str) -> str:
    if name not in POLYMORPHIC:
        return name
    return f"_{concrete}" if name.endswith("array") and "non" not in name else concrete
