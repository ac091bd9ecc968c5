"""Incremental fetch sessions (KIP-227), as transcripts of requests."""

import itertools

import pytest

from ottla.core.replica.fetch_sessions import (
    FetchedPartition,
    FetchPlan,
    FetchSessionCache,
    MixedTopicIds,
    PartitionKey,
    SessionNotFound,
    WrongSessionEpoch,
    move_served_to_end,
)


def partition(index: int, offset: int = 0) -> FetchedPartition:
    return FetchedPartition("orders", index, offset, 1000)


class Client:
    """Sends requests to a cache, with a controlled clock and predictable session ids."""

    def __init__(self, max_sessions: int = 2, min_eviction_ms: int = 100) -> None:
        self.cache = FetchSessionCache(max_sessions, min_eviction_ms)
        self.now_ms = 0
        self._ids = itertools.count(7)

    def fetch(
        self,
        session_id: int,
        epoch: int,
        partitions: list[FetchedPartition],
        forgotten: list[PartitionKey] | None = None,
        uses_topic_ids: bool = False,
    ) -> FetchPlan:
        return self.cache.plan(
            session_id,
            epoch,
            partitions,
            forgotten or [],
            uses_topic_ids=uses_topic_ids,
            now_ms=self.now_ms,
            random_id=lambda: next(self._ids),
        )


def indexes(plan: FetchPlan) -> list[int]:
    return [each.partition for each in plan.partitions]


def test_a_sessionless_fetch_begins_no_session() -> None:
    client = Client()
    plan = client.fetch(0, -1, [partition(0)])
    assert (plan.session_id, plan.session, indexes(plan)) == (0, None, [0])
    assert len(client.cache) == 0


def test_a_session_remembers_its_partitions_and_takes_changes() -> None:
    client = Client()
    opened = client.fetch(0, 0, [partition(0), partition(1)])
    assert (opened.session_id, opened.incremental) == (7, False)

    same = client.fetch(7, 1, [])
    assert (indexes(same), same.incremental) == ([0, 1], True)

    moved = client.fetch(7, 2, [partition(1, offset=50), partition(2)], forgotten=[("orders", 0)])
    assert indexes(moved) == [1, 2]
    assert next(iter(moved.partitions)).fetch_offset == 50


def test_epochs_must_follow_one_another() -> None:
    client = Client()
    client.fetch(0, 0, [partition(0)])
    client.fetch(7, 1, [])
    with pytest.raises(WrongSessionEpoch):
        client.fetch(7, 1, [])
    with pytest.raises(WrongSessionEpoch):
        client.fetch(7, 3, [])
    assert client.fetch(7, 2, []).session_id == 7


def test_an_unknown_session_is_an_error() -> None:
    with pytest.raises(SessionNotFound):
        Client().fetch(99, 1, [])


def test_closing_a_session_forgets_it() -> None:
    client = Client()
    client.fetch(0, 0, [partition(0)])
    client.fetch(7, -1, [])
    with pytest.raises(SessionNotFound):
        client.fetch(7, 1, [])


def test_names_and_ids_do_not_mix_within_a_session() -> None:
    client = Client()
    client.fetch(0, 0, [partition(0)])
    with pytest.raises(MixedTopicIds):
        client.fetch(7, 1, [], uses_topic_ids=True)


def test_a_full_cache_gives_up_only_sessions_that_slept_long_enough() -> None:
    client = Client(max_sessions=1, min_eviction_ms=100)
    client.fetch(0, 0, [partition(0)])
    client.now_ms = 99
    assert client.fetch(0, 0, [partition(0)]).session_id == 0
    client.now_ms = 100
    assert client.fetch(0, 0, [partition(0)]).session_id == 8
    with pytest.raises(SessionNotFound):
        client.fetch(7, 1, [])


def test_partitions_that_gave_data_come_last_next_time() -> None:
    client = Client()
    opened = client.fetch(0, 0, [partition(0), partition(1), partition(2)])
    assert opened.session is not None
    move_served_to_end(opened.session, [("orders", 0)])
    assert indexes(client.fetch(7, 1, [])) == [1, 2, 0]
