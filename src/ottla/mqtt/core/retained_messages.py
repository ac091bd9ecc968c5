"""Retained messages, one a topic, as a tree of levels: those that a filter matches, without trying each.

What they take is bounded, and counted with what a topic's levels take, as a topic may have thousands. A
message that finds no room is left out. One that has expired is given out no more, and goes with the next
`sweep`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from ottla.mqtt.core.messages import Message
from ottla.mqtt.core.properties import Property
from ottla.mqtt.core.topics import ALL, ONE

MESSAGE_BYTES: Final = 1_000
"""Of a message, beside its payload, topic and properties: measured with CPython 3.12."""
LEVEL_BYTES: Final = 400
"""Of a level of a topic."""
PROPERTY_BYTES: Final = 150
_SPARE_EXPIRIES: Final = 1_000
"""Of messages that were replaced, kept beside as many as there are messages."""


@dataclass(frozen=True, slots=True)
class Retained:
    """A message, who published it, and when. expires_s: None for never. Times since the epoch."""

    message: Message
    publisher: str
    stored_s: float
    expires_s: float | None = None

    @classmethod
    def of(cls, message: Message, publisher: str, stored_s: float) -> Retained:
        """That of a message with what it says of its expiry."""
        seconds = message.properties.get(Property.MESSAGE_EXPIRY_INTERVAL)
        return cls(message, publisher, stored_s, None if seconds is None else stored_s + seconds)

    def is_over(self, now_s: float) -> bool:
        """Whether it has expired."""
        return self.expires_s is not None and self.expires_s <= now_s


class _Node:
    __slots__ = ("below", "kept")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.kept: Retained | None = None


class RetainedMessages:
    """At most `most_bytes` of them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._root = _Node()
        self._by_topic: dict[str, Retained] = {}
        self._expiries: list[tuple[float, str]] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._by_topic)

    def get(self, topic: str, now_s: float) -> Retained | None:
        """The message of a topic; None without one."""
        found = self._by_topic.get(topic)
        return None if found is None or found.is_over(now_s) else found

    def size_with(self, message: Message) -> int:
        """What all take once this one is there, in place of its topic's present one."""
        former = self._by_topic.get(message.topic)
        return self.size_bytes + _size(message) - (0 if former is None else _size(former.message))

    def put(self, retained: Retained) -> bool:
        """Keep a message in place of its topic's former one; False if there is no room, then it has none."""
        topic = retained.message.topic
        self.discard(topic)
        size = _size(retained.message)
        if self.size_bytes + size > self._most_bytes:
            return False
        node = self._root
        for level in topic.split("/"):
            below = node.below.get(level)
            if below is None:
                below = node.below[level] = _Node()
            node = below
        node.kept = self._by_topic[topic] = retained
        self.size_bytes += size
        if retained.expires_s is not None:
            heapq.heappush(self._expiries, (retained.expires_s, topic))
            self._forget_spare_expiries()
        return True

    def discard(self, topic: str) -> None:
        """Keep none of a topic, nor levels under which nothing is left."""
        former = self._by_topic.pop(topic, None)
        if former is None:
            return
        self.size_bytes -= _size(former.message)
        levels = topic.split("/")
        path = [self._root]
        for level in levels:
            path.append(path[-1].below[level])
        path[-1].kept = None
        for level, above, node in zip(reversed(levels), reversed(path[:-1]), reversed(path), strict=False):
            if node.kept is not None or node.below:
                return
            del above.below[level]

    def sweep(self, now_s: float) -> None:
        """Let go of what has expired."""
        while self._expiries and self._expiries[0][0] <= now_s:
            expires_s, topic = heapq.heappop(self._expiries)
            found = self._by_topic.get(topic)
            if found is not None and found.expires_s == expires_s:
                self.discard(topic)

    def _forget_spare_expiries(self) -> None:
        if len(self._expiries) <= 2 * len(self._by_topic) + _SPARE_EXPIRIES:
            return
        live = (
            (each.expires_s, topic) for topic, each in self._by_topic.items() if each.expires_s is not None
        )
        self._expiries = list(live)
        heapq.heapify(self._expiries)

    def clear(self) -> None:
        """Keep none."""
        self._root = _Node()
        self._by_topic.clear()
        self._expiries.clear()
        self.size_bytes = 0

    def topics(self, filter_: str) -> list[str]:
        """The topics with a message that a filter matches."""
        nodes = [self._root]
        for depth, level in enumerate(filter_.split("/")):
            if level == ALL:
                return [topic for node in nodes for topic in _all(node, reserved=depth > 0)]
            if level == ONE:
                nodes = [
                    below
                    for node in nodes
                    for name, below in node.below.items()
                    if depth > 0 or not name.startswith("$")
                ]
            else:
                nodes = [below for node in nodes if (below := node.below.get(level)) is not None]
        return [node.kept.message.topic for node in nodes if node.kept is not None]


def _all(top: _Node, *, reserved: bool) -> list[str]:
    """The topics of a node and of all below it. reserved: those that begin with `$` too."""
    found: list[str] = []
    left = [top]
    while left:
        node = left.pop()
        if node.kept is not None:
            found.append(node.kept.message.topic)
        for name, below in node.below.items():
            if reserved or node is not top or not name.startswith("$"):
                left.append(below)
    return found


def _size(message: Message) -> int:
    size = MESSAGE_BYTES + message.size_bytes + LEVEL_BYTES * (message.topic.count("/") + 1)
    for name, value in message.properties.items():
        if name is Property.USER_PROPERTY:
            size += sum(2 * PROPERTY_BYTES + len(key) + len(text) for key, text in value)
        else:
            size += PROPERTY_BYTES + (len(value) if isinstance(value, (str, bytes)) else 0)
    return size
