"""Gives records to the clients whose subscriptions match: found in a tree of filters, a few at a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from ottla.client.access import ClusterAccess
from ottla.mqtt.core.filter_tree import FilterTree
from ottla.mqtt.core.messages import message_of
from ottla.mqtt.core.subscriptions import Arrived, At, Place
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
        self._delivered: dict[Place, int] = {}

        self._waiting: set[Subscriber] = set()
        self._at: At | None = None

    def positions_of(self, subscriber: Subscriber) -> dict[Place, int]:
        """The first offsets of all partitions that a subscriber is yet to be given; none before `ready`."""
        found = {**self._reading.begins, **self._delivered}
        if self._at is not None and subscriber in self._waiting:
            found[self._at[0]] = self._at[1]
        return found

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
        for deliveries, subscriber in enumerate(self._tree.matching(arrived.message.topic), 1):
            subscriber.arrived(arrived)
            if deliveries % DELIVERIES_A_TURN == 0:
                await asyncio.sleep(0)

    async def _deliver(self, records: Sequence[ReadRecord]) -> None:
        deliveries = 0
        for record in records:
            place, offset = record.at
            self._delivered[place] = offset + 1
            found = arrived_of(record) if self._tree else None
            if found is None:
                continue
            self._at, self._waiting = record.at, self._tree.matching(found.message.topic)
            while self._waiting:
                self._waiting.pop().arrived(found)
                deliveries += 1
                if deliveries % DELIVERIES_A_TURN == 0:
                    await asyncio.sleep(0)
            self._at = None


def arrived_of(record: ReadRecord) -> Arrived | None:
    """The message that a record is; None for one that is none."""
    found = message_of(record.key, record.value, record.headers)
    if found is None:
        return None
    age_seconds = max(0.0, time.time() - record.timestamp_ms / 1_000) if record.timestamp_ms else 0.0
    return Arrived(*found, age_seconds, record.at)
