"""A topic in memory that stands in for `KafkaCluster` where only reading and positions matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FakeMessage:
    key_bytes: bytes
    value_bytes: bytes

    def key(self) -> bytes:
        return self.key_bytes

    def value(self) -> bytes:
        return self.value_bytes


@dataclass(slots=True)
class FakeTopic:
    """One partition of one topic: `messages` in order, and from which offset each `read` began."""

    messages: list[FakeMessage] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)

    def append(self, key: bytes, value: bytes = b"") -> None:
        self.messages.append(FakeMessage(key, value))

    def read(self, topic: str, since: Mapping[int, int] | None = None) -> Iterator[FakeMessage]:
        start = (since or {}).get(0, 0)
        self.reads.append(start)
        return iter(self.messages[start:])

    def end_positions(self, topic: str) -> dict[int, int]:
        return {0: len(self.messages)}

    def keys(self) -> list[bytes]:
        return [message.key_bytes for message in self.messages]
