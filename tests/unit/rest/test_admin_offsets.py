"""Offsets of partitions, asked of leaders that move, end, or are not there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.list_offsets_request import ListOffsetsRequest
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.rest.admin import cluster_offsets
from ottla.rest.admin.cluster_offsets import partition_offsets
from ottla.rest.admin.model import OffsetSpec, Partition, Topic
from ottla.rest.kafka_errors import RETRIABLE, unreachable
from ottla.web.errors import ApiError

Key = tuple[str, int]


@dataclass(slots=True)
class FakeCluster:
    """leaders: the truth. told: what metadata says of them. silent: brokers that can't be reached."""

    leaders: dict[Key, int | None]
    told: dict[Key, int | None] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    refusal: ErrorCode = ErrorCode.NONE
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def topics(self, names: Collection[str]) -> list[Topic]:
        seen = self.leaders | self.told
        self.told.clear()  # the next answer is up to date
        return [
            Topic(
                name,
                False,
                tuple(
                    Partition(index, leader, (), ())
                    for (topic, index), leader in sorted(seen.items())
                    if topic == name
                ),
            )
            for name in sorted(set(names) & {topic for topic, _ in seen})
        ]

    async def ask(self, request: Any, node_id: int | None) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest) and node_id is not None
        encode_request(2, 9, 1, "test", request)
        self.asked.append((node_id, sum(len(topic.partitions) for topic in request.topics)))
        if node_id in self.silent:
            raise unreachable("silent")
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._answer((topic.name, each.partition_index), each.timestamp, node_id)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _answer(self, key: Key, timestamp: int, node_id: int) -> ListOffsetsPartitionResponse:
        code = self.refusal
        if key not in self.leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif self.leaders[key] != node_id:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        offset = offset_of(key, OffsetSpec(timestamp)) if code == ErrorCode.NONE else -1
        return ListOffsetsPartitionResponse(partition_index=key[1], error_code=code, offset=offset)

    def offsets(
        self, keys: Collection[Key], spec: OffsetSpec = OffsetSpec.LATEST, seconds: float = 10
    ) -> dict[Key, int]:
        return asyncio.run(partition_offsets(self.ask, self.topics, keys, spec, seconds))


def offset_of(key: Key, spec: OffsetSpec) -> int:
    return 1_000 * len(key[0]) + 10 * key[1] + (5 if spec is OffsetSpec.LATEST else 0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_offsets, "POLL_SECONDS", 0.001)


@pytest.mark.parametrize("seed", range(30))
def test_every_partition_that_is_there_has_the_offset_of_its_leader(seed: int) -> None:
    # given: metadata that is old in part, partitions that are gone, and some of which nobody has heard
    rng = random.Random(seed)
    keys = [("t" * rng.randint(1, 5), index) for index in range(rng.randint(1, 40))]
    truth: dict[Key, int | None] = {key: rng.randint(1, 4) for key in keys if rng.random() < 0.8}
    told: dict[Key, int | None] = {key: rng.choice([1, 2, 3, 4, None]) for key in keys if rng.random() < 0.5}
    cluster = FakeCluster(truth, told)
    wanted = {*keys, ("nowhere", 0)}
    spec = rng.choice(list(OffsetSpec))

    # when
    found = cluster.offsets(wanted, spec)

    # then
    assert found == {key: offset_of(key, spec) for key in truth}


def test_a_leader_is_asked_in_requests_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_offsets, "PARTITIONS_OF_A_REQUEST", 3)
    cluster = FakeCluster({("t", index): 1 + index % 2 for index in range(10)})
    assert len(cluster.offsets(cluster.leaders)) == 10
    assert sorted(cluster.asked) == [(1, 2), (1, 3), (2, 2), (2, 3)]


def test_another_leader_is_asked_when_one_is_silent() -> None:
    cluster = FakeCluster({("t", 0): 2, ("t", 1): 3}, told={("t", 0): 1}, silent={1})
    assert cluster.offsets([("t", 0), ("t", 1)]) == {
        key: offset_of(key, OffsetSpec.LATEST) for key in cluster.leaders
    }


@pytest.mark.parametrize(
    "cut_off",
    [FakeCluster({("t", 0): None}), FakeCluster({("t", 0): 1}, silent={1})],
    ids=["no leader", "a leader that is silent"],
)
def test_a_partition_that_nobody_answers_for_is_an_error_after_the_timeout(cut_off: FakeCluster) -> None:
    with pytest.raises(ApiError) as raised:
        cut_off.offsets([("t", 0)], seconds=0.05)
    assert (raised.value.status, raised.value.error_code) == RETRIABLE


def test_a_refusal_is_told_at_once() -> None:
    cluster = FakeCluster({("t", 0): 1}, refusal=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ApiError) as raised:
        cluster.offsets([("t", 0)], seconds=60)
    assert (raised.value.status, len(cluster.asked)) == (403, 1)
