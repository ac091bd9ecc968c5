"""Publishes `$SYS/` to the subscribers of this copy, every so often; nothing of it goes to the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ottla import __version__
from ottla.mqtt.core.retained_messages import Retained
from ottla.mqtt.core.subscriptions import Arrived
from ottla.mqtt.core.sys_topics import SysSample, SysTopics
from ottla.mqtt.figures import MqttFigures
from ottla.mqtt.subscribers import Subscribers


class SysPublishing:
    """Of one service: `run` in a task of its own."""

    def __init__(self, figures: MqttFigures, subscribers: Subscribers, interval_s: float) -> None:
        self._figures = figures
        self._subscribers = subscribers
        self._interval_s = interval_s
        self._begun_s = time.monotonic()
        self._topics = SysTopics(f"ottla version {__version__}")

    async def run(self) -> None:
        """Publish for as long as the service runs; never returns."""
        while True:
            for message in self._topics.sampled(self._sample(), time.time()):
                await self._subscribers.publish(Arrived(message, "", 0.0))
            await asyncio.sleep(self._interval_s)

    def _sample(self) -> SysSample:
        figures = self._figures
        return SysSample(
            time.monotonic() - self._begun_s,
            sum(figures.clients.values()),
            figures.retained,
            {
                "messages/received": figures.packets_received,
                "messages/sent": figures.packets_sent,
                "bytes/received": figures.bytes_received,
                "bytes/sent": figures.bytes_sent,
                "publish/messages/received": sum(figures.messages.values()),
                "publish/messages/sent": figures.deliveries["sent"],
                "publish/messages/dropped": figures.deliveries["dropped"],
                "connections": sum(figures.connects.values()),
            },
        )

    def topics(self, filter_: str) -> Sequence[str]:
        """The topics that a filter matches."""
        return self._topics.topics(filter_)

    def get(self, topic: str) -> Retained | None:
        """The last message of a topic."""
        return self._topics.get(topic)
