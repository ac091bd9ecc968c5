"""Configurations in the topic connect-configs of a distributed worker.

The leader alone writes, as replicated/ fences it: under the transactional id that Java's leaders have too
(KIP-618), so that a leader that was given up, of either kind, writes no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.connect.core.config_image import ConfigImage
from ottla.connect.core.decisions import Decided
from ottla.connect.state.config_codec import decode, encode
from ottla.connect.state.stores import Listener
from ottla.replicated.decision import Decision
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import Loss
from ottla.replicated.place import Place
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.primary import Primary
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic import ReplicatedTopic

T = TypeVar("T")

WRITERS_ID: Final = "connect-cluster-{}"


class ConfigTopic:
    """Satisfies ConfigStore. `topic` is prepared, read and closed by the worker."""

    def __init__(
        self,
        access: ClusterAccess,
        name: str,
        group_id: str,
        leadership: Leadership,
        timeout_ms: int,
        replication_factor: int,
        topic_settings: Mapping[str, str],
    ) -> None:
        self._image = ConfigImage()
        self._listener: Listener | None = None
        self._timeout_ms = timeout_ms
        spec = TopicSpec(
            name,
            "connector configurations",
            lambda loss: way_out(name, loss),
            replication_factor=replication_factor,
            config=topic_settings,
        )
        self.topic = ReplicatedTopic(access, spec, self._replay, WRITERS_ID.format(group_id), timeout_ms)
        self.primary = Primary(self.topic, leadership)

    @property
    def image(self) -> ConfigImage:
        """See ConfigStore."""
        return self._image

    def listen(self, listener: Listener) -> None:
        """See ConfigStore."""
        self._listener = listener

    async def write(self, decide: Callable[[], Decided[T]]) -> T:
        """See ConfigStore."""

        def decision() -> Decision[T]:
            decided = decide()
            return Decision(tuple(map(encode, decided.records)), decided.answer)

        async with asyncio.timeout(self._timeout_ms / 1000):
            return await self.primary.write(decision)

    async def wait_for_offset(self, offset: int) -> None:
        """See ConfigStore."""
        await self.topic.wait_until_at(Place(self.topic.place.topic_id, (offset,)))

    def _replay(self, record: ReplayedRecord) -> None:
        found = decode(record.key, record.value)
        if found is None:
            self._image.offset = record.offset
            return
        self._image.replay(found, record.offset)
        if self._listener is not None:
            self._listener(found)


def way_out(topic: str, loss: Loss) -> str:
    """How to go on after the loss of a topic of a Connect cluster."""
    return (
        f"topic {topic} {loss.value}: the worker goes on with what it has read, and takes no changes. Put "
        "the topic's records back, or restart all workers to begin with what is there"
    )
