"""What is found is kept in bounds: of number, of size, of time."""

from __future__ import annotations

import pytest

from ottla.client.registry.cache import Cache


def test_the_one_not_asked_for_the_longest_makes_room() -> None:
    cache: Cache[str] = Cache(3)
    for key in (1, 2, 3):
        cache.keep(key, f"found {key}")
    assert cache.recall(1) == "found 1"
    cache.keep(4, "found 4")
    assert [cache.recall(key) for key in (1, 2, 3, 4)] == ["found 1", None, "found 3", "found 4"]


def test_what_is_large_makes_others_go_but_stays_itself() -> None:
    cache: Cache[str] = Cache(10, 100)
    cache.keep("a", "a", characters=60)
    cache.keep("b", "b", characters=30)
    cache.keep("a", "a", characters=70)  # in place of what was kept there
    assert (cache.recall("a"), cache.recall("b")) == ("a", "b")
    cache.keep("c", "c", characters=1_000)
    assert [cache.recall(key) for key in "abc"] == [None, None, "c"]
    cache.keep("d", "d", characters=100)
    assert [cache.recall(key) for key in "cd"] == [None, "d"]


def test_what_is_kept_for_a_while_goes_by_itself_a_failure_too() -> None:
    now = [0.0]
    cache: Cache[str] = Cache(10, clock=lambda: now[0])
    cache.keep("latest", "x", seconds=3)
    cache.keep("unknown", LookupError("none"), seconds=10)
    now[0] = 2.9
    assert cache.recall("latest") == "x"
    for _ in range(3):
        with pytest.raises(LookupError):
            cache.recall("unknown")
    now[0] = 10.1
    assert cache.recall("latest") is None and cache.recall("unknown") is None
