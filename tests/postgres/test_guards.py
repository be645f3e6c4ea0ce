"""What a registered table cannot have, given to it later: refused in that very statement; everything else goes
through."""

from __future__ import annotations

import psycopg
import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

_OTHERS = (
    "create table public.owners (id bigint primary key)",
    "alter table public.events add column owner bigint",
)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("alter table public.events enable row level security", "row-level security cannot be applied"),
        (
            (
                "alter table public.events add constraint owned foreign key (owner) references public.owners on "
                "delete cascade"
            ),
            "the foreign key owned would change rows of the heap and not of the lake",
        ),
        (
            "create table public.notes (id bigint, ts timestamptz, foreign key (id, ts) references public.events)",
            "of (public.)?notes would hold partitions back",
        ),
        (
            "alter table public.bare add foreign key (id, ts) references public.events",
            "of (public.)?bare would hold partitions back",
        ),
    ],
)
def test_what_the_lake_could_not_follow_is_refused_at_once(shop: Shop, statement: str, sentence: str) -> None:
    shop.run(*EVENTS, *_OTHERS, "create table public.bare (id bigint, ts timestamptz)")
    shop.register()
    with pytest.raises(
        psycopg.errors.FeatureNotSupported, match=f"public.events is registered with Thermocline: .*{sentence}"
    ):
        shop.run(statement)


def test_a_kept_heap_may_have_foreign_keys_of_every_kind(shop: Shop) -> None:
    shop.run(*EVENTS, *_OTHERS)
    shop.register(keep_heap=True)
    shop.run(
        "alter table public.events add constraint owned foreign key (owner) references public.owners on delete cascade",
        "create table public.notes (id bigint, ts timestamptz, foreign key (id, ts) references public.events)",
    )
    assert _foreign_keys(shop) == ["notes_id_ts_fkey", "owned"]


def test_other_tables_and_harmless_changes_are_let_through(shop: Shop) -> None:
    shop.run(*EVENTS, *_OTHERS)
    shop.register()
    shop.run(
        "alter table public.owners enable row level security",
        "create table public.pets (id bigint references public.owners on delete cascade)",
        "alter table public.events add constraint owned foreign key (owner) references public.owners",
        "alter table public.events alter column owner set statistics 50",
    )
    assert _foreign_keys(shop) == ["owned", "pets_id_fkey"]


def _foreign_keys(shop: Shop) -> list[str]:
    query = (
        "select conname from pg_constraint where contype = 'f' and conparentid = 0 and connamespace = "
        "'public'::regnamespace order by 1"
    )
    return [name for (name,) in shop.conn.execute(query)]
