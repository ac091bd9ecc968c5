"""The topics under `$SYS/`: figures of the proxy, under mosquitto's names.

A sample of the counters, taken every so often, makes the messages; those that have changed are published.
Load is what happens in a minute, as means over about 1, 5 and 15 of them, in which a sample counts the less
the older it is, as in mosquitto.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.mqtt.core.messages import SYS, Message
from ottla.mqtt.core.retained_messages import Retained, RetainedMessages

PREFIX: Final = f"{SYS}broker/"
MINUTES: Final = (1, 5, 15)
_MOST_BYTES: Final = 1 << 20
"""Far more than these messages take."""


@dataclass(frozen=True, slots=True)
class SysSample:
    """Counters as they are at a time. counted: those that load is taken of too, by the topics' names."""

    uptime_s: float
    clients: int
    retained: int
    counted: Mapping[str, int]


_LOADS: Final[Mapping[str, str]] = {
    "messages/received": "load/messages/received",
    "messages/sent": "load/messages/sent",
    "publish/messages/received": "load/publish/received",
    "publish/messages/sent": "load/publish/sent",
    "publish/messages/dropped": "load/publish/dropped",
    "bytes/received": "load/bytes/received",
    "bytes/sent": "load/bytes/sent",
    "connections": "load/connections",
}
"""By what is counted; connections have no topic of their count."""


@dataclass(slots=True)
class SysTopics:
    """The messages as they were last published. version: what the broker calls itself."""

    version: str
    _most_clients: int = 0
    _before: SysSample | None = None
    _loads: dict[str, float] = field(default_factory=dict)
    _messages: RetainedMessages = field(default_factory=lambda: RetainedMessages(_MOST_BYTES))

    def sampled(self, sample: SysSample, now_s: float) -> Sequence[Message]:
        """The messages that a sample changes."""
        self._most_clients = max(self._most_clients, sample.clients)
        texts = {
            "version": self.version,
            "uptime": f"{int(sample.uptime_s)} seconds",
            "clients/connected": str(sample.clients),
            "clients/total": str(sample.clients),
            "clients/maximum": str(self._most_clients),
            "retained messages/count": str(sample.retained),
            **{name: str(count) for name, count in sample.counted.items() if name != "connections"},
        }
        before, self._before = self._before, sample
        if before is not None and sample.uptime_s > before.uptime_s:
            texts |= self._loads_since(before, sample)
        changed: list[Message] = []
        for name, text in texts.items():
            topic, payload = PREFIX + name, text.encode()
            former = self._messages.get(topic, now_s)
            if former is None or former.message.payload != payload:
                message = Message(topic, payload, retain=True)
                self._messages.put(Retained.of(message, "", now_s))
                changed.append(message)
        return changed

    def _loads_since(self, before: SysSample, sample: SysSample) -> Mapping[str, str]:
        seconds = sample.uptime_s - before.uptime_s
        texts: dict[str, str] = {}
        for counted, name in _LOADS.items():
            a_minute = 60 * (sample.counted.get(counted, 0) - before.counted.get(counted, 0)) / seconds
            for minutes in MINUTES:
                topic = f"{name}/{minutes}min"
                weight = math.exp(-seconds / (60 * minutes))
                load = a_minute + weight * (self._loads.get(topic, 0.0) - a_minute)
                self._loads[topic] = load
                texts[topic] = f"{load:.2f}"
        return texts

    def topics(self, filter_: str) -> Sequence[str]:
        """Those that a filter matches."""
        return self._messages.topics(filter_)

    def get(self, topic: str) -> Retained | None:
        """The message of a topic."""
        return self._messages.get(topic, 0)
