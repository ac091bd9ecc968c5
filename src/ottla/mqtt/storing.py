"""Stores messages, retained ones in two steps: first as their topic's retained message, then as any other.

Theory of operation. A subscriber that comes between the steps gets the message twice at worst. The other
way round it would not get it at all: too late for the record, too early for the retained one. After a kill
between them no PUBACK was sent, and the client sends the message again. What is published to the same MQTT
topic in the meantime waits behind it, so messages of one topic stay in their order; it counts as under way
like any.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import NamedTuple

from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.figures import MqttFigures
from ottla.mqtt.producing import OVERHEAD_BYTES, MessageWriter, Report
from ottla.mqtt.retained_topic import RetainedTopic


class _Asked(NamedTuple):
    kafka_topic: str
    message: Message
    client_id: str
    report: Report

    @property
    def size_bytes(self) -> int:
        return self.message.size_bytes + OVERHEAD_BYTES


class MessageStore:
    """Stores the messages of all clients. retained: None where nothing is."""

    def __init__(self, writer: MessageWriter, retained: RetainedTopic | None, figures: MqttFigures) -> None:
        self._writer = writer
        self.retained = retained
        self._figures = figures
        self._waiting: dict[str, deque[_Asked]] = {}

    def store(self, kafka_topic: str, message: Message, client_id: str, report: Report) -> None:
        """Store a message; `report` is called with its end, perhaps at once."""
        if self.retained is None or not (message.retain or self._waiting):
            self._writer.store(kafka_topic, message, client_id, report)
            return
        asked = _Asked(kafka_topic, message, client_id, report)
        waiting = self._waiting.get(message.topic)
        if waiting is not None:
            waiting.append(asked)
            self._count(asked, 1)
        elif message.retain:
            self._waiting[message.topic] = deque()
            if not self._retain(asked):
                self._go_on(message.topic)
        else:
            self._writer.store(*asked)

    def _retain(self, asked: _Asked) -> bool:
        """Take the first step; False if the message is refused."""
        retained, message = self.retained, asked.message
        assert retained is not None
        if not retained.is_begun:
            asked.report(ReasonCode.SERVER_BUSY, "the topic of retained messages can't be used yet")
        elif not retained.has_room(message):
            asked.report(ReasonCode.QUOTA_EXCEEDED, "there is no room for further retained messages")
        else:
            self._writer.retain(retained.name, message, asked.client_id, partial(self._retained, asked))
            return True
        return False

    def _retained(self, asked: _Asked, reason: ReasonCode, text: str) -> None:
        if reason.is_failure:
            asked.report(reason, text)
        else:
            self._writer.store(*asked)
        self._go_on(asked.message.topic)

    def _go_on(self, topic: str) -> None:
        """Store what waits, up to the next retained one."""
        waiting = self._waiting[topic]
        while waiting:
            asked = waiting.popleft()
            self._count(asked, -1)
            if not asked.message.retain:
                self._writer.store(*asked)
            elif self._retain(asked):
                return
        del self._waiting[topic]

    def _count(self, asked: _Asked, messages: int) -> None:
        self._figures.under_way += messages
        self._figures.under_way_bytes += messages * asked.size_bytes
