"""A cache holds so many bytes, whatever the number and size of its entries."""

from __future__ import annotations

import time

import pytest

from thermocline.runtime.memory.bounded_cache import BoundedCache, cached_by_text


def test_the_entry_that_was_used_longest_ago_goes_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    for number, key in enumerate("abc"):
        cache.put(key, number, 30)
    assert cache.read("a") == 0
    cache.put("d", 3, 30)
    assert [cache.read(key) for key in "abcd"] == [0, None, 2, 3]
    assert cache.held_bytes == 90


def test_an_entry_that_is_put_again_counts_once_and_a_forgotten_one_not_at_all() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    for _ in range(10):
        cache.put("a", 1, 60)
    assert cache.held_bytes == 60
    cache.forget("a")
    cache.forget("a")
    assert (cache.held_bytes, len(cache)) == (0, 0)


def test_what_is_larger_than_the_cache_is_not_held_unless_it_is_kept_alone() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    cache.put("a", 1, 50)
    cache.put("b", 2, 101)
    assert (cache.read("a"), cache.read("b")) == (1, None)
    keeping: BoundedCache[str, int] = BoundedCache(max_bytes=100, keeps_large=True)
    keeping.put("a", 1, 50)
    keeping.put("b", 2, 101)
    assert (keeping.read("a"), keeping.read("b")) == (None, 2)


def test_an_entry_that_is_put_with_another_size_replaces_the_old_one() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100)
    cache.put("a", 1, 10)
    cache.put("a", 2, 101)
    assert cache.read("a") is None


def test_an_entry_ends_with_its_time() -> None:
    cache: BoundedCache[str, int] = BoundedCache(max_bytes=100, seconds=0.02)
    cache.put("a", 1, 10)
    assert cache.read("a") == 1
    time.sleep(0.03)
    assert cache.read("a") is None
    assert cache.held_bytes == 0


def test_a_function_of_a_text_is_called_once_for_short_texts_and_leaves_nothing_of_long_ones() -> None:
    asked: list[str] = []

    @cached_by_text(max_bytes=10_000, bytes_per_character=100)
    def measure(text: str) -> int | None:
        asked.append(text)
        if text == "bad":
            raise LookupError(text)
        return len(text) or None

    for text in ("", "", "ab", "ab", "x" * 200, "x" * 200):
        assert measure(text) == (len(text) or None)
    for _ in range(2):
        with pytest.raises(LookupError):
            measure("bad")
    assert asked == ["", "ab", "x" * 200, "x" * 200, "bad", "bad"]
