"""Offsets of the source's topics to the target's by the offset syncs of this flow, or of the one back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.mirror.checkpoints.state_topics import StateReader
from ottla.mirror.core.checkpoint_rules import PartitionKey
from ottla.mirror.core.offset_sync_store import OffsetSyncStore
from ottla.mirror.core.policies import Flow
from ottla.mirror.core.record_formats import FormatError, OffsetSync

_log: Final = logging.getLogger("ottla.mirror")


@dataclass(frozen=True, slots=True)
class SyncSource:
    """A topic of offset syncs, and the cluster that has it."""

    access: ClusterAccess
    topic: str


class _Followed:
    """A topic of offset syncs, read on and on; one that is not there says nothing."""

    def __init__(self, source: SyncSource) -> None:
        self._source = source
        self.store = OffsetSyncStore()
        self._reader = StateReader(source.access, source.topic, self._begin, self._take)
        self._is_there = False

    def read(self, goes_on: Callable[[], bool]) -> None:
        if not self._is_there:
            access = self._source.access
            cluster = KafkaCluster(access.bootstrap, dict(access.properties))
            self._is_there = not cluster.missing_topics([self._source.topic])
        if self._is_there:
            try:
                self._reader.read_to_end(goes_on)
            except ClusterError:
                self._is_there = False  # perhaps it is gone: the next look tells
                raise

    def close(self) -> None:
        self._reader.close()

    def _begin(self) -> None:
        self.store = OffsetSyncStore()

    def _take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            return
        try:
            self.store.replay(OffsetSync.read(key, value))
        except FormatError as problem:
            _log.warning("a record of topic %s is no offset sync: %s", self._source.topic, problem)


class Translating:
    """The translation of a flow. back: the offset syncs of the flow in the other direction."""

    def __init__(self, flow: Flow, syncs: SyncSource, back: SyncSource) -> None:
        self._flow = flow
        self._syncs = _Followed(syncs)
        self._back = _Followed(back)

    def read(self, goes_on: Callable[[], bool]) -> None:
        """Take in what was said since. Raises ClusterError."""
        self._syncs.read(goes_on)
        try:
            self._back.read(goes_on)
        except ClusterError as problem:
            _log.info("the way back is not known now: %s", problem)

    def translate(self, topic: str, partition: int, offset: int) -> tuple[str, int] | None:
        """See Translate."""
        name = self._came_from_target(topic)
        if name is not None:
            found = self._back.store.translate_back(name, partition, offset)
            return None if found is None else (name, found)
        found = self._syncs.store.translate(topic, partition, offset)
        return None if found is None else (self._flow.remote_topic(topic), found)

    def renamed(self, partitions: Iterable[PartitionKey]) -> list[PartitionKey]:
        """The partitions by their names on the target."""
        return [
            (self._came_from_target(topic) or self._flow.remote_topic(topic), partition)
            for topic, partition in partitions
        ]

    def close(self) -> None:
        """Give the readers up."""
        self._syncs.close()
        self._back.close()

    def _came_from_target(self, topic: str) -> str | None:
        """The topic's name on the target, if it is a copy from there."""
        if self._flow.policy.topic_source(topic) != self._flow.target_alias:
            return None
        return self._flow.policy.upstream_topic(topic)
