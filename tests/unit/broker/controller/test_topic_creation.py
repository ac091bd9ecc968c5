"""Topics that a broker asks for by itself: known here when it goes on, else an error for clients."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.controller import topic_creation
from ottla.broker.controller.topic_creation import auto_create_topics, create_topics
from ottla.protocol.errors import ErrorCode, RequestTimedOut
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse


class Node:
    """A broker whose metadata learns of a topic some records after the controller has answered."""

    def __init__(self, error: ErrorCode | Exception = ErrorCode.NONE, records_until_known: int = 3) -> None:
        self.error = error
        self.records_until_known = records_until_known
        self.asked: list[str] = []
        self.image = SimpleNamespace(topics={}, last_offset=10)
        self.controller_channel = SimpleNamespace(ask=self._ask)
        self.controller = SimpleNamespace(wait_for=self._wait_for)

    async def _ask(self, request: CreateTopicsRequest, *, timeout_ms: int) -> CreateTopicsResponse:
        if isinstance(self.error, Exception):
            raise self.error
        self.asked += [each.name for each in request.topics]
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=each.name, error_code=self.error, error_message=None)
                for each in request.topics
            ]
        )

    async def _wait_for(self, offset: int) -> None:
        await asyncio.sleep(0)
        self.image.last_offset = offset
        if offset >= 10 + self.records_until_known:
            self.image.topics |= dict.fromkeys(self.asked)


def test_a_new_topic_is_known_here_when_the_answer_comes() -> None:
    async def scenario() -> None:
        node = Node()
        await create_topics(cast(Any, node), [CreatableTopic(name="t")])
        assert "t" in node.image.topics

    asyncio.run(scenario())


def test_metadata_that_does_not_come_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(topic_creation, "APPLIED_TIMEOUT_SECONDS", 0.01)
        node = Node(records_until_known=1_000_000_000)
        with pytest.raises(RequestTimedOut):
            await create_topics(cast(Any, node), [CreatableTopic(name="t")])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, {}),
        (ErrorCode.INVALID_REPLICATION_FACTOR, {"t": ErrorCode.INVALID_REPLICATION_FACTOR}),
        (RequestTimedOut(), {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    ],
)
def test_what_can_not_be_made_is_told_topic_by_topic(
    error: ErrorCode | Exception, told: dict[str, ErrorCode]
) -> None:
    async def scenario() -> None:
        assert await auto_create_topics(cast(Any, Node(error)), ["t", "t"]) == told

    asyncio.run(scenario())
