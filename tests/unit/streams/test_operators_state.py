"""A bucket's pages against a plain dictionary: batches that fail, caches that are stale, keys and timers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.streams.host import keyed_state
from ottla.streams.host.keyed_state import BucketState, StateError, _Cache, all_records
from ottla.streams.operators.operator import TimerKind
from support.pipeline.keyed_operators import DictionaryStorage, key_hash

EVENT = TimerKind.EVENT_TIME


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_state, "PAGE_BYTES", 120)
    monkeypatch.setattr(keyed_state, "LEAF_TIMERS", 6)


def select(state: BucketState, key: str) -> None:
    state.select(key, key_hash(key))


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "set timer", "cancel timer"]),
        st.integers(0, 30),
        st.integers(0, 3),
        st.integers(0, 60),
    ),
    max_size=30,
)


@given(
    st.lists(
        st.tuples(operations, st.sampled_from(["commit", "fail", "elsewhere"]), st.integers(0, 70)),
        max_size=8,
    )
)
def test_committed_changes_are_there_and_no_others(batches: list[Any]) -> None:
    """`fail`: the batch's writes never happen. `elsewhere`: the next batch is another process's."""
    stored = DictionaryStorage()
    processes = [_Cache(), _Cache()]
    committed: dict[tuple[int, int], int] = {}
    timers: set[tuple[int, str]] = set()
    for changes, ending, until_ms in batches:
        attempt = DictionaryStorage()
        attempt.pages = dict(stored.pages)
        state = BucketState(attempt, processes[0])
        values, now = dict(committed), set(timers)
        due = state.take_due(EVENT, until_ms)
        assert [(at_ms, key) for at_ms, key, _ in due] == sorted(each for each in now if each[0] <= until_ms)
        now = {each for each in now if each[0] > until_ms}
        state.prefetch(key_hash(f"k{number}") for _, number, _, _ in changes)
        for operation, number, sub_key, value in changes:
            select(state, f"k{number}")
            match operation:
                case "put":
                    state.put(0, sub_key, value)
                    values[number, sub_key] = value
                case "delete":
                    state.delete(0, sub_key)
                    values.pop((number, sub_key), None)
                case "set timer":
                    state.set_timer(EVENT, value)
                    now.add((value, f"k{number}"))
                case "cancel timer":
                    state.cancel_timer(EVENT, value)
                    now.discard((value, f"k{number}"))
            assert state.get(0, sub_key) == values.get((number, sub_key))
        for number in range(31):
            select(state, f"k{number}")
            entries = sorted((sub, value) for (key, sub), value in values.items() if key == number)
            assert list(state.entries(0)) == entries
        assert state.size(0) == len(values)
        assert state.earliest_ms(EVENT) == min((at_ms for at_ms, _ in now), default=None)
        state.flush()
        if ending == "fail":
            continue
        stored, committed, timers = attempt, values, now
        if ending == "elsewhere":
            processes.reverse()
    found = {
        (int(key[1:]), sub): value
        for key, record in all_records(stored)
        for sub, value in record.get(0, {}).items()
    }
    assert found == committed


def test_pages_stay_small_as_keys_come() -> None:
    storage = DictionaryStorage()
    for start in range(0, 2000, 500):
        state = BucketState(storage, _Cache())
        for number in range(start, start + 500):
            select(state, f"key {number}")
            state.put(0, b"", number)
        state.flush()
    sizes = [len(page) for name, page in storage.pages.items() if name[:1] == b"k"]
    assert max(sizes) < 20 * keyed_state.PAGE_BYTES
    assert sum(sizes) / len(sizes) < 2 * keyed_state.PAGE_BYTES
    assert len(dict(all_records(storage))) == 2000


def test_a_batch_writes_only_the_pages_that_it_changed() -> None:
    storage, cache = DictionaryStorage(), _Cache()
    state = BucketState(storage, cache)
    for number in range(500):
        select(state, f"key {number}")
        state.put(0, b"", number)
        state.set_timer(EVENT, number)
    state.flush()
    before = dict(storage.pages)

    state = BucketState(storage, cache)
    select(state, "key 7")
    state.put(0, b"", -7)
    state.flush()

    assert len([name for name, page in storage.pages.items() if before.get(name) != page]) == 2
    state = BucketState(storage, cache)
    select(state, "key 7")
    assert state.get(0, b"") == -7
    pages = dict(storage.pages)
    state.flush()
    assert storage.pages == pages


def test_the_cache_stays_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_state, "CACHE_BYTES", 5000)
    cache = _Cache()
    buckets = [DictionaryStorage() for _ in range(4)]
    for _ in range(3):
        for storage in buckets:
            state = BucketState(storage, cache)
            for number in random.sample(range(1000), 200):
                select(state, f"key {number}")
                state.put(0, b"", number)
            state.flush()
            kept = [pages for pages, _, _ in cache._buckets.values()]
            assert sum(page.size_bytes for pages in kept for page in pages.values()) <= 5000
            assert cache._size_bytes <= 5000


@dataclass
class Custom:
    value: int


def test_values_that_are_not_plain_are_refused_when_they_are_stored() -> None:
    state = BucketState(DictionaryStorage(), _Cache())
    select(state, "a")
    state.put(0, b"", Custom(1))
    with pytest.raises(StateError, match="state holds plain values, not"):
        state.flush()


def test_state_of_another_version_is_refused() -> None:
    storage = DictionaryStorage()
    BucketState(storage, _Cache()).flush()
    storage.pages[b"m"] = b"\x63" + storage.pages[b"m"][1:]
    with pytest.raises(StateError, match="version 99, this ottla reads 1"):
        BucketState(storage, _Cache())
