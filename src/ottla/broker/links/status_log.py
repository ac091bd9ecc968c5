"""The compacted topic with the status of links, mirror topics and promotions, for everybody to read.

Keys and values are JSON. {"link": NAME} has a link's definition without secrets and how it fares; {"link":
NAME, "topic": TOPIC} a mirror topic's partitions and how far they are, and after its end where they stood. A
record is written when it says something new. The leader of the topic's only partition writes; one that was
replaced is refused by its followers, and its successor reads what is committed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.core.links.definition import LINK_TOPIC
from ottla.core.links.status import FAILED_OVER, PROMOTED
from ottla.protocol.record_batch import NewRecord

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

log = logging.getLogger("ottla.broker.links")

PARTITION: Final = 0
MAX_VALUE_BYTES: Final = 900_000
RECORDS_A_BATCH: Final = 100
BATCH_BYTES: Final = 900_000

#: A link, or with a topic one of its mirror topics.
StatusKey = tuple[str, str | None]


class StatusLog:
    """What the topic says, as of its last record. Made anew for each leader epoch."""

    def __init__(self, node: LinksNode) -> None:
        self._node = node
        self._values: dict[StatusKey, dict[str, Any]] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read all that is committed. Raises KafkaError when this broker leads the topic no more."""
        await self._node.internal_appends.until_committed(LINK_TOPIC, PARTITION)
        for _, records in self._node.internal_appends.iterate_batches(LINK_TOPIC, PARTITION):
            for record in records:
                key = _decoded_key(record.key)
                if key is None:
                    continue
                value = _decoded(record.value)
                if value is None:
                    self._values.pop(key, None)
                else:
                    self._values[key] = value

    def get(self, key: StatusKey) -> dict[str, Any] | None:
        """The value of a key, or None."""
        return self._values.get(key)

    def topics_of(self, link: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The topics of a link with their values."""
        for (name, topic), value in list(self._values.items()):
            if name == link and topic is not None:
                yield topic, value

    def links(self) -> set[str]:
        """All links that have a status."""
        return {link for link, _ in self._values}

    async def write(self, values: Mapping[StatusKey, dict[str, Any] | None]) -> None:
        """Write values that are new, None for a key that goes; returns once they are committed.

        Where a topic's end is told, nothing but another end, or nothing, comes after it. Raises KafkaError.
        """
        async with self._writing:
            await self._write({key: value for key, value in values.items() if self._may_follow(key, value)})

    def _may_follow(self, key: StatusKey, value: dict[str, Any] | None) -> bool:
        before = self._values.get(key)
        return before is None or value is None or not is_end(before) or is_end(value)

    async def _write(self, values: Mapping[StatusKey, dict[str, Any] | None]) -> None:
        records: list[NewRecord] = []
        size = 0
        changed = {
            key: value
            for key, value in values.items()
            if _without_time(self._values.get(key)) != _without_time(value)
        }
        now_ms = self._node.now_ms()
        for (link, topic), value in changed.items():
            key = {"link": link} if topic is None else {"link": link, "topic": topic}
            text = None if value is None else json.dumps(value, separators=(",", ":")).encode()
            if text is not None and len(text) > MAX_VALUE_BYTES:
                log.error("the status of a mirror topic is too large link=%s topic=%s", link, topic)
                continue
            if records and (len(records) >= RECORDS_A_BATCH or size + len(text or b"") > BATCH_BYTES):
                await self._node.internal_appends.append_records(LINK_TOPIC, PARTITION, records)
                records, size = [], 0
            records.append(NewRecord(key=json.dumps(key).encode(), value=text, timestamp=now_ms))
            size += len(text or b"")
        if records:
            await self._node.internal_appends.append_records(LINK_TOPIC, PARTITION, records)
        for key_of, value in changed.items():
            if value is None:
                self._values.pop(key_of, None)
            else:
                self._values[key_of] = value


def is_end(value: Mapping[str, Any]) -> bool:
    """Whether a topic's status tells how its mirror ended."""
    return value.get("state") in (PROMOTED, FAILED_OVER)


def _without_time(value: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else {name: each for name, each in value.items() if name != "at_ms"}


def _decoded_key(data: bytes | memoryview | None) -> StatusKey | None:
    found = _decoded(data)
    if found is None or not isinstance(found.get("link"), str):
        return None
    topic = found.get("topic")
    return found["link"], topic if isinstance(topic, str) else None


def _decoded(data: bytes | memoryview | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        found = json.loads(bytes(data))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
