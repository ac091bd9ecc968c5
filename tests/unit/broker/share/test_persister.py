"""Share states that other brokers coordinate: who is asked about what, and what is asked again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.share import share_persister
from ottla.broker.share.share_persister import ShareStatePersister
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.responses import StateRequest, merge, refusal, result, split
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_share_group_state_request import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    PartitionData,
)
from ottla.protocol.schema import Message

HERE, ELSEWHERE, THIRD = 1, 2, 3
TOPIC = uuid.UUID(int=77)


class Asked:
    """A persister and the brokers that it asks; `leaders` coordinate share partitions 0, 1, 2 …"""

    def __init__(self, *leaders: int | None) -> None:
        self.leaders = leaders
        self.asked: list[tuple[int, list[int]]] = []
        self.failures: list[Exception | ErrorCode] = []
        self.persister = ShareStatePersister(HERE, OwnCoordinator(self), self)

    async def ask(
        self, purpose: str, node_id: int, request: Any, *, timeout_ms: int | None = None
    ) -> Message:
        """Another broker's answer."""
        parts = list(split(request))
        self.asked.append((node_id, [key.partition for key, _ in parts]))
        failure = self.failures.pop(0) if self.failures else ErrorCode.NONE
        if isinstance(failure, Exception):
            raise failure
        if failure is not ErrorCode.NONE:
            return merge(request, [refusal(part, failure) for _, part in parts])
        return merge(request, [result(part) for _, part in parts])


class OwnCoordinator:
    """This broker's own coordinator, which knows where the others are."""

    def __init__(self, asked: Asked) -> None:
        self.shards = self
        self._asked = asked

    async def make_topic(self) -> None:
        pass

    def partition_for(self, key: SharePartitionKey) -> int:
        return key.partition

    def leader_of(self, partition: int) -> int | None:
        return self._asked.leaders[partition]

    async def ask(
        self, parts: Sequence[tuple[SharePartitionKey, StateRequest]]
    ) -> dict[SharePartitionKey, Message]:
        self._asked.asked.append((HERE, [key.partition for key, _ in parts]))
        return {key: result(part) for key, part in parts}


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_persister, "RETRY_DELAY_SECONDS", 0.001)


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


def delete(*partitions: int) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(
        group_id="g",
        topics=[
            DeleteStateData(topic_id=TOPIC, partitions=[PartitionData(partition=each) for each in partitions])
        ],
    )


def errors(answer: Message) -> dict[int, int]:
    return {
        each.partition: each.error_code
        for topic in answer.results  # type: ignore[attr-defined]
        for each in topic.partitions
    }


def test_each_coordinator_is_asked_once_about_all_of_its_own() -> None:
    async def scene() -> None:
        brokers = Asked(HERE, ELSEWHERE, THIRD, ELSEWHERE)
        answer = await brokers.persister.delete(delete(0, 1, 2, 3))
        assert errors(answer) == dict.fromkeys(range(4), ErrorCode.NONE)
        assert sorted(brokers.asked) == [(HERE, [0]), (ELSEWHERE, [1, 3]), (THIRD, [2])]

    play(scene)


@pytest.mark.parametrize("failure", [PeerUnreachable("gone"), ErrorCode.NOT_COORDINATOR])
def test_a_coordinator_that_is_not_there_is_asked_again(failure: Exception | ErrorCode) -> None:
    async def scene() -> None:
        brokers = Asked(ELSEWHERE, HERE)
        brokers.failures = [failure]
        answer = await brokers.persister.delete(delete(0, 1))
        assert errors(answer) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
        assert brokers.asked == [(HERE, [1]), (ELSEWHERE, [0]), (ELSEWHERE, [0])] or brokers.asked == [
            (ELSEWHERE, [0]),
            (HERE, [1]),
            (ELSEWHERE, [0]),
        ]

    play(scene)


def test_without_a_leader_the_answer_is_that_nobody_is_there() -> None:
    async def scene() -> None:
        brokers = Asked(None)
        answer = await brokers.persister.delete(delete(0))
        assert errors(answer) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert brokers.asked == []

    play(scene)
