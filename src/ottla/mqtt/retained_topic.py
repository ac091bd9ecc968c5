"""The compacted Kafka topic of retained messages, read by every copy of the service into its memory.

Theory of operation. A record's key is the MQTT topic, its value the payload, and its headers are those of
any message; no value: the topic has no retained message any more. The topic is made where it is missing, read
from its begin, and from then on for ever. `read_to_end` returns once all that stood in it at the call is
here: subscribers wait for that, so they get what was acknowledged before they came, by whichever copy. One
question to the cluster serves all that came before it was asked. While the topic can't be used, or once it
was deleted and made again, reading begins anew, with nothing in memory.

New messages are refused from the bound on (`has_room`). What was read is held up to twice that, as other
copies may write at the same moment; beyond, it is left out and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.metrics.exposition import Family
from ottla.mqtt.core.messages import Message, message_of
from ottla.mqtt.core.retained_messages import Retained, RetainedMessages
from ottla.mqtt.figures import MqttFigures
from ottla.replicated.errors import StateError, Unstored
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.metrics_source import StateParts, state_families
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic import ReplicatedTopic

log = logging.getLogger("ottla.mqtt")

AGAIN_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
BEGIN_SECONDS: Final = 5.0
"""How long the service's start waits for the topic; then it goes on without."""
READ_SECONDS: Final = 15.0
"""How long a subscription waits for the cluster."""
STEP_MS: Final = 30_000


class RetainedTopic:
    """Of one service: `run` in a task of its own."""

    def __init__(self, access: ClusterAccess, name: str, most_bytes: int, figures: MqttFigures) -> None:
        self.name: Final = name
        self._access = access
        self._most_bytes = most_bytes
        self._figures = figures
        self._spec = TopicSpec(name, "retained messages", _way_out, any_partitions=True)
        self._messages = RetainedMessages(2 * most_bytes)
        self._topic: ReplicatedTopic | None = None
        self._begun = asyncio.Event()
        self._round: asyncio.Task[bool] | None = None
        self._next_round: asyncio.Task[bool] | None = None

    # -- reading --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read for as long as the service runs; never returns."""
        while True:
            topic = ReplicatedTopic(self._access, self._spec, self._replay, None, STEP_MS)
            try:
                await topic.prepare()
                await self._read(topic)
            except StateError as problem:
                log.warning("retained messages: %s", problem)
            finally:
                await topic.close()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _read(self, topic: ReplicatedTopic) -> None:
        """Read until the topic is lost. Raises StateError."""
        reading = asyncio.create_task(topic.read(), name="reading retained messages")
        self._topic = topic
        self._begun.set()
        try:
            while topic.loss is None:
                done, _ = await asyncio.wait([reading], timeout=LOOK_SECONDS)
                if done:
                    reading.result()
                self._messages.sweep(time.time())
                self._tell_figures()
        finally:
            self._begun.clear()
            self._topic = None
            reading.cancel()
            await asyncio.wait([reading])
            self._messages.clear()
            self._tell_figures()

    def _replay(self, record: ReplayedRecord) -> None:
        try:
            topic = record.key.decode()
        except UnicodeDecodeError:
            return
        found = message_of(record.key, record.value, record.headers)
        if found is None or not record.value or found[0].topic != topic:
            self._messages.discard(topic)
        else:
            stored_s = record.timestamp_ms / 1_000 if record.timestamp_ms > 0 else time.time()
            if not self._messages.put(Retained.of(*found, stored_s)):
                self._figures.retained_left_out += 1
                log.warning("a retained message finds no room and is left out: %.200s", topic)
        self._tell_figures()

    def _tell_figures(self) -> None:
        self._figures.retained = len(self._messages)
        self._figures.retained_bytes = self._messages.size_bytes

    async def begun(self) -> None:
        """Return once the topic is read, or after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._begun.wait()

    async def read_to_end(self) -> bool:
        """Return once all that is in the topic now is here; False while the cluster is away."""
        if self._next_round is None:
            self._next_round = asyncio.create_task(
                self._read_round(self._round), name="reading retained messages to their end"
            )
        return await asyncio.shield(self._next_round)

    async def _read_round(self, former: asyncio.Task[bool] | None) -> bool:
        if former is not None:
            await asyncio.wait([former])
        self._round, self._next_round = self._next_round, None
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self._begun.wait()
                topic = self._topic
                assert topic is not None, "it has begun"
                await topic.read_to_end()
        except (TimeoutError, Unstored, TopicLost) as problem:
            log.warning("retained messages can't be read: %s", str(problem) or "no answer in time")
            return False
        return True

    async def stop(self) -> None:
        """Answer no more."""
        for each in (self._round, self._next_round):
            if each is not None:
                each.cancel()
                await asyncio.wait([each])

    # -- questions ------------------------------------------------------------------------------------------

    @property
    def is_begun(self) -> bool:
        """Whether the topic can be used."""
        return self._topic is not None

    def has_room(self, message: Message) -> bool:
        """Whether one more may be retained. One without a payload deletes, and needs none."""
        return not message.payload or self._messages.size_with(message) <= self._most_bytes

    def topics(self, filter_: str) -> Sequence[str]:
        """The MQTT topics with a retained message that a filter matches."""
        return self._messages.topics(filter_)

    def get(self, topic: str) -> Retained | None:
        """The retained message of a topic."""
        return self._messages.get(topic, time.time())

    def families(self) -> Iterator[Family]:
        """The metrics of the reading."""
        if self._topic is not None:
            yield from state_families([StateParts(self._topic)])


def _way_out(loss: Loss) -> str:
    return f"the topic of retained messages {loss.value}: it is read anew."
