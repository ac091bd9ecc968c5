"""Where the source tasks of a host keep their offsets: a topic, or a standalone worker's file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.host.clients import access, admin_access, is_elsewhere, secured
from ottla.connect.host.messages import Start
from ottla.connect.host.offset_file import OffsetFile
from ottla.connect.host.offset_records import OffsetImage
from ottla.connect.host.offset_topic import replay
from ottla.connect.host.settings import (
    CONNECTOR_OFFSETS_TOPIC,
    OFFSETS_FILE,
    OFFSETS_PARTITIONS,
    OFFSETS_REPLICAS,
    OFFSETS_TOPIC,
    exactly_once,
)

Offsets = list[tuple[SourcePartition, SourceOffset]]
"""Source partitions with their offsets."""
READ_SECONDS: Final = 90.0
"""Longer than the transaction of a killed task stays open (transaction.timeout.ms)."""
COMPACTED: Final = {"cleanup.policy": "compact"}


class OffsetTopic(NamedTuple):
    """A topic of offsets. of_worker: it lies on the worker's cluster, not on that of the records."""

    name: str
    of_worker: bool


class OffsetTopics(NamedTuple):
    """The topic that a connector's offsets are written to, and one that is read besides for older ones."""

    own: OffsetTopic
    older: OffsetTopic | None = None


def offset_topics(start: Start) -> OffsetTopics:
    """The offsets topics of a source connector (KIP-618). Raises ConfigError.

    A transaction lives in one cluster: where an exactly-once connector's records go elsewhere, so do its
    offsets.
    """
    name = start.worker.get(OFFSETS_TOPIC, "").strip()
    if not name:
        raise ConfigError(f'Missing required configuration "{OFFSETS_TOPIC}" which has no default value.')
    of_worker = OffsetTopic(name, True)
    own_name = start.config.get(CONNECTOR_OFFSETS_TOPIC, "").strip()
    away = is_elsewhere(start)
    if own_name and (own_name != name or away):
        return OffsetTopics(OffsetTopic(own_name, False), of_worker)
    if away and exactly_once(start.worker):
        return OffsetTopics(OffsetTopic(name, False), of_worker)
    return OffsetTopics(of_worker)


def offset_file(start: Start) -> OffsetFile | None:
    """The offsets file of a standalone worker; None for a worker with an offsets topic."""
    path = start.worker.get(OFFSETS_FILE, "").strip()
    if not path or start.worker.get(OFFSETS_TOPIC, "").strip():
        return None
    return OffsetFile(Path(path))


def topic_access(start: Start, topic: OffsetTopic) -> ClusterAccess:
    """The cluster of an offsets topic, for readers."""
    return secured(access(start.worker, {} if topic.of_worker else start.config, "producer"))


def ensure_topic(start: Start, topic: OffsetTopic, worker: Settings) -> None:
    """Make a connector's own offsets topic where it is missing; the worker has made its own.

    Raises ClusterError.
    """
    if topic.of_worker:
        return
    where = admin_access(start)
    cluster = KafkaCluster(where.bootstrap, dict(where.properties))
    if cluster.missing_topics([topic.name]):
        cluster.ensure_topics(
            [Topic(topic.name, worker[OFFSETS_PARTITIONS], worker[OFFSETS_REPLICAS], COMPACTED)]
        )


async def read_image(start: Start, topic: OffsetTopic) -> OffsetImage:
    """All committed offsets of a topic; none where it is not there. Raises ClusterError."""
    image = OffsetImage()
    await replay(topic_access(start, topic), topic.name, image.apply, READ_SECONDS)
    return image


def merged(connector: str, own: OffsetImage, older: OffsetImage | None) -> Offsets:
    """A connector's offsets: of its own topic, and those of the older one that its own does not have."""
    found = own.of(connector)
    if older is not None:
        known = [partition for partition, _ in found]
        found += [each for each in older.of(connector) if each[0] not in known]
    return found


def read_offsets(start: Start) -> Offsets:
    """A connector's committed offsets, read to the end of its topics. Raises ClusterError."""

    async def read() -> Offsets:
        topics = offset_topics(start)
        own = await read_image(start, topics.own)
        older = None if topics.older is None else await read_image(start, topics.older)
        return merged(start.run.connector, own, older)

    return asyncio.run(read())


def offset_of(
    offsets: Sequence[tuple[SourcePartition, SourceOffset]], partition: SourcePartition
) -> SourceOffset | None:
    """The offset of a partition, None where there is none."""
    return next((offset for known, offset in offsets if known == partition), None)
