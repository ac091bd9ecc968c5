"""Statuses in the topic connect-status of a distributed worker: every worker writes those of its own tasks.

Statuses wait in a table with one place for each key, so a flood of changes writes the last of them, and the
table never holds more than the worker's connectors and tasks. A write that fails is tried again for as long
as the worker runs, unless a newer status has taken its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.connect.core.status_image import StatusImage, StatusRecord
from ottla.connect.state.config_topic import way_out
from ottla.connect.state.status_codec import decode, encode
from ottla.replicated.errors import TooLarge, Unstored
from ottla.replicated.loss import TopicLost
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.records import Record, ReplayedRecord
from ottla.replicated.topic import ReplicatedTopic

log = logging.getLogger("ottla.connect")

RETRY_SECONDS: Final = 1.0
LAST_WRITE_SECONDS: Final = 3.0


class StatusTopic:
    """Satisfies StatusStore. `topic` is prepared, read and closed by the worker; `run` writes."""

    def __init__(
        self,
        access: ClusterAccess,
        name: str,
        timeout_ms: int,
        partitions: int,
        replication_factor: int,
        topic_settings: Mapping[str, str],
    ) -> None:
        self._image = StatusImage()
        self._waiting: dict[bytes, Record] = {}
        self._wanted = asyncio.Event()
        spec = TopicSpec(
            name,
            "statuses",
            lambda loss: way_out(name, loss),
            partitions=partitions,
            any_partitions=True,
            replication_factor=replication_factor,
            config=topic_settings,
        )
        self.topic = ReplicatedTopic(access, spec, self._replay, None, timeout_ms)

    @property
    def image(self) -> StatusImage:
        """See StatusStore."""
        return self._image

    def put(self, records: Sequence[StatusRecord]) -> None:
        """See StatusStore."""
        for record in records:
            encoded = encode(record)
            self._waiting[encoded.key] = encoded
        if records:
            self._wanted.set()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if not await self._write():
                await asyncio.sleep(RETRY_SECONDS)
                self._wanted.set()

    async def write_the_last(self) -> None:
        """Write what waits, for a moment: the worker is about to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITE_SECONDS):
                await self._write()

    async def _write(self) -> bool:
        """Write what waits; False if it has to be tried again."""
        taken = dict(self._waiting)
        if not taken:
            return True
        try:
            await self.topic.add(list(taken.values()))
        except TooLarge:
            log.error("statuses of %d connectors and tasks are larger than the topic takes", len(taken))
        except (Unstored, TopicLost) as problem:
            log.warning("statuses can't be written: %s", problem)
            return False
        for key, record in taken.items():
            if self._waiting.get(key) is record:
                del self._waiting[key]
        return True

    def _replay(self, record: ReplayedRecord) -> None:
        found = decode(record.key, record.value)
        if found is not None:
            self._image.replay(found)
