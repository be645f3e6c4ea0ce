"""Storage profiles: where registration makes a lake table, and what it says when there is no such place."""

from __future__ import annotations

import pytest
from tests.postgres.conftest import Shop
from tests.postgres.events_table import EVENTS

from thermocline.errors import AlreadyRegistered, ProfileInUse, ProfileTaken, UnknownProfile, UsageError
from thermocline.ops.admin.profiles import add_profile, list_profiles, remove_profile


def _location(shop: Shop) -> str:
    return str(shop.rows("select lake_location from thermocline.tables")[0][0])


@pytest.mark.conforms("C-022")
def test_a_named_profile_is_used_else_the_default_else_the_settings_warehouse(shop: Shop) -> None:
    shop.run(*EVENTS)
    shop.register()
    assert _location(shop).startswith(f"file://{shop.warehouse}/")
    shop.unregister()
    add_profile(shop.dsn, "archive", str(shop.settings.dir / "the archive"))
    shop.register()
    assert _location(shop).startswith(f"file://{shop.warehouse}/")
    shop.unregister()
    shop.register(profile="archive")
    assert _location(shop).startswith(f"file://{shop.settings.dir}/the archive/public/events-")
    assert shop.rows("select profile from thermocline.tables") == [("archive",)]
    shop.unregister()
    add_profile(shop.dsn, "cheap", str(shop.settings.dir / "cheap"), is_default=True)
    shop.register()
    assert _location(shop).startswith(f"file://{shop.settings.dir}/cheap/")
    assert [(p.name, p.is_default, p.tables) for p in list_profiles(shop.dsn)] == [
        ("archive", False, 0),
        ("cheap", True, 1),
    ]


@pytest.mark.conforms("C-022")
def test_an_unknown_profile_is_refused_by_its_name_and_leaves_nothing(shop: Shop) -> None:
    shop.run(*EVENTS)
    add_profile(shop.dsn, "archive", str(shop.settings.dir / "archive"))
    before = shop.traces()
    with pytest.raises(UnknownProfile, match="There is no storage profile nowhere") as refused:
        shop.register(profile="nowhere")
    assert (refused.value.code, refused.value.hint) == ("TC218", UnknownProfile.hint)
    assert shop.traces() == before


def test_a_registered_table_keeps_its_profile(shop: Shop) -> None:
    shop.run(*EVENTS)
    for name in ("a", "b"):
        add_profile(shop.dsn, name, str(shop.settings.dir / name))
    shop.register(profile="a")
    assert shop.register(profile="a").already
    with pytest.raises(AlreadyRegistered, match=r"with another --profile \(a\)"):
        shop.register(profile="b")


def test_one_profile_is_the_default_and_none_changes_its_place(shop: Shop) -> None:
    add_profile(shop.dsn, "a", "/lakes/a", is_default=True)
    add_profile(shop.dsn, "b", "s3://lakes/b", is_default=True)
    add_profile(shop.dsn, "a", "/lakes/a")
    assert [(p.name, p.warehouse, p.is_default) for p in list_profiles(shop.dsn)] == [
        ("a", "file:///lakes/a", False),
        ("b", "s3://lakes/b", True),
    ]
    with pytest.raises(ProfileTaken, match="a already, with another warehouse"):
        add_profile(shop.dsn, "a", "/lakes/elsewhere")
    with pytest.raises(UsageError, match="no place for a lake"):
        add_profile(shop.dsn, "c", "ftp://lakes")


def test_the_seam_carries_the_comments_of_the_table_and_its_columns(shop: Shop) -> None:
    shop.run(
        *EVENTS,
        "comment on table public.events is 'what happened'",
        "comment on column public.events.id is 'its number'",
    )
    shop.register()
    described = (
        "select obj_description('public_all.events'::regclass), col_description('public_all.events'::regclass, 1)"
    )
    assert shop.rows(described) == [("what happened", "its number")]


@pytest.mark.conforms("O-021")
def test_a_profile_is_removed_when_no_lake_is_in_it(shop: Shop) -> None:
    shop.run(*EVENTS)
    add_profile(shop.dsn, "archive", str(shop.settings.dir / "archive"))
    shop.register(profile="archive")
    with pytest.raises(ProfileInUse, match=r"holds the lakes of public\.events\."):
        remove_profile(shop.dsn, "archive")
    shop.unregister(drop_lake=True)
    assert remove_profile(shop.dsn, "archive").name == "archive"
    assert list_profiles(shop.dsn) == ()
    add_profile(shop.dsn, "cheap", str(shop.settings.dir / "cheap"))
    for use in (lambda: remove_profile(shop.dsn, "cheep"), lambda: shop.register(profile="cheep")):
        with pytest.raises(UnknownProfile) as refused:
            use()
        assert refused.value.hint == "Did you mean cheap?"
