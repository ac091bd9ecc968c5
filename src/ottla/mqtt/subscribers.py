"""Gives records to the clients whose subscriptions match: found in a tree of filters, a few at a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ottla.client.access import ClusterAccess
from ottla.mqtt.core.filter_tree import FilterTree
from ottla.mqtt.core.messages import message_of
from ottla.mqtt.core.subscriptions import Arrived
from ottla.mqtt.record_reading import ReadRecord, RecordReading

DELIVERIES_A_TURN: Final = 500


class Subscriber(Protocol):
    """A client that has subscriptions."""

    def arrived(self, arrived: Arrived) -> None:
        """A message is there that one of its filters matches."""


class Subscribers:
    """All clients of a service that have subscriptions."""

    def __init__(self, access: ClusterAccess, topics: Sequence[str]) -> None:
        self._tree: FilterTree[Subscriber] = FilterTree()
        self._reading = RecordReading(access, topics, self._deliver)

    async def ready(self) -> bool:
        """Whether messages are read from now on; False while the cluster is away."""
        return await self._reading.ready()

    def add(self, subscriber: Subscriber, filters: Iterable[str]) -> None:
        """A client has these filters from now on."""
        for each in filters:
            self._tree.add(each, subscriber)

    def discard(self, subscriber: Subscriber, filters: Iterable[str]) -> None:
        """A client has these filters no more."""
        for each in filters:
            self._tree.discard(each, subscriber)

    async def failed(self) -> str:
        """Wait until records can't be read any more; returns the reason."""
        return await self._reading.failed()

    async def stop(self) -> None:
        """Read no more."""
        await self._reading.stop()

    async def publish(self, arrived: Arrived) -> None:
        """Give out a message that is the proxy's own."""
        await self._give_out(arrived, 0)

    async def _give_out(self, arrived: Arrived, deliveries: int) -> int:
        """Give a message to all whose filters match; how many were given out, with those before it."""
        for subscriber in self._tree.matching(arrived.message.topic):
            subscriber.arrived(arrived)
            deliveries += 1
            if deliveries % DELIVERIES_A_TURN == 0:
                await asyncio.sleep(0)
        return deliveries

    async def _deliver(self, records: Sequence[ReadRecord]) -> None:
        deliveries = 0
        for record in records:
            if not self._tree:
                return
            found = message_of(record.key, record.value, record.headers)
            if found is None:
                continue
            message, publisher = found
            age_seconds = max(0.0, time.time() - record.timestamp_ms / 1_000) if record.timestamp_ms else 0.0
            arrived = Arrived(message, publisher, age_seconds)
            deliveries = await self._give_out(arrived, deliveries)
