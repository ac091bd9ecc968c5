"""A topic is prepared on a cluster that is not there."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.access import ClusterAccess
from ottla.replicated import preparing
from ottla.replicated.errors import StateError
from ottla.replicated.preparing import TopicSpec, prepare
from ottla.replicated.topic_log import TopicLog

NOWHERE = ClusterAccess("127.0.0.1:1")
SPEC = TopicSpec("topic", "values", str)


async def prepared() -> None:
    log = TopicLog(NOWHERE, SPEC.name)
    try:
        await prepare(NOWHERE, SPEC, log)
    finally:
        await log.close()


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "ANSWER_SECONDS", 0.1)
    with pytest.raises(StateError, match=r"no Kafka broker answers at 127\.0\.0\.1:1"):
        asyncio.run(prepared())


def test_a_start_without_a_cluster_ends_soon_after_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    # a thread that waited as long would hold up the loop's end
    monkeypatch.setattr(preparing, "ANSWER_SECONDS", 3_600)

    async def story() -> None:
        starting = asyncio.create_task(prepared())
        await asyncio.sleep(0.1)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()

    asyncio.run(story())
