"""Makes a state's topic at the start, or sees to it that the one that is there can keep the state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.replicated.errors import StateError
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.records import Record
from ottla.replicated.topic_log import FoundTopic, TopicLog, Unreadable
from ottla.replicated.writer import NEVER_MAKE_TOPICS

log = logging.getLogger("ottla.replicated")

CLIENT_ID: Final = "ottla-replicated"
"""Where the access names none."""
ANSWER_SECONDS: Final = 30.0
"""For a broker of the cluster to answer."""
ANSWER_LOOK_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.1
LOOKS: Final = 100
"""For a topic that was just made to be known, and for one with leaders; then the start is given up."""
POLICY: Final = "cleanup.policy"
WANTED_POLICY: Final = "compact"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A compacted topic that keeps a service's state.

    contents: the noun for its records in messages, in the plural.
    way_out: how to go on after a loss; a sentence or two for the log and for refused clients.
    partitions: the number that it is made with; with `any_partitions` a topic of another number is taken too.
    replication_factor: or as many as there are brokers.
    config: settings that it is made with beside `cleanup.policy`.
    end_mark: a record without a meaning that a new primary, or a new reader, writes to find the end of a
        topic of one partition; None: they ask for the end.
    """

    name: str
    contents: str
    way_out: Callable[[Loss], str]
    partitions: int = 1
    any_partitions: bool = False
    replication_factor: int = 3
    config: Mapping[str, str] = field(default_factory=dict)
    end_mark: Record | None = None


async def prepare(access: ClusterAccess, spec: TopicSpec, partitions: TopicLog) -> str:
    """Make the topic or check it, and adopt it; the cluster's id. Raises StateError."""
    try:
        cluster = await _reach(access)
        cluster_id, brokers = await asyncio.to_thread(lambda: (cluster.cluster_id(), cluster.broker_count()))
        await _Preparing(cluster, spec, partitions).adopt(min(spec.replication_factor, brokers))
        return cluster_id
    except ClusterError as problem:
        raise StateError(f"topic {spec.name}: {problem}") from None


async def _reach(access: ClusterAccess) -> KafkaCluster:
    """Return when a broker answers. Raises StateError. In short looks, so that a start can be cancelled."""
    cluster = KafkaCluster(
        access.bootstrap, {**access.properties, **NEVER_MAKE_TOPICS}, access.client_id or CLIENT_ID
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while not await asyncio.to_thread(cluster.answers, ANSWER_LOOK_SECONDS):
                pass
    except TimeoutError:
        raise StateError(f"no Kafka broker answers at {access.bootstrap}") from None
    return cluster


class _Preparing:
    def __init__(self, cluster: KafkaCluster, spec: TopicSpec, partitions: TopicLog) -> None:
        self._cluster = cluster
        self._spec = spec
        self._log = partitions

    async def adopt(self, replication_factor: int) -> None:
        """Return when the topic is known and can be used. Raises StateError, ClusterError."""
        reason = "it is deleted as soon as it is made"
        for _ in range(LOOKS):
            try:
                found = await self._log.find()
                if found is None:
                    await self._create(replication_factor)
                elif None in found.leaders:
                    reason = f"partition {found.leaders.index(None)} has no leader"
                else:
                    self._log.adopt(found)
                    await self._check(found)
                    return
            except (Unreadable, TopicLost, NoSuchTopic) as problem:
                reason = str(problem)
            await asyncio.sleep(LOOK_SECONDS)
        raise StateError(f"topic {self._spec.name} at {self._cluster.bootstrap} can't be used: {reason}")

    async def _create(self, replication_factor: int) -> None:
        spec = self._spec
        settings = {**spec.config, POLICY: WANTED_POLICY}
        wanted = Topic(spec.name, spec.partitions, replication_factor, settings)
        if await asyncio.to_thread(self._cluster.create_topic, wanted):
            log.info("made topic %s with %d replicas", spec.name, replication_factor)

    async def _check(self, found: FoundTopic) -> None:
        """Raises StateError; and Unreadable, TopicLost, NoSuchTopic where it is to be looked for again."""
        spec = self._spec
        if len(found.leaders) != spec.partitions and not spec.any_partitions:
            wanted = "the order of a single one" if spec.partitions == 1 else f"exactly {spec.partitions}"
            raise StateError(
                f"topic {spec.name} has {len(found.leaders)} partitions: {spec.contents} need {wanted}. "
                f"If no {spec.contents} are in it, delete it, and the next start makes it: "
                f"{self._command('kafka-topics.sh', '--delete --topic {}')}"
            )
        settings = await asyncio.to_thread(self._cluster.topic_settings, spec.name)
        policy = settings[POLICY]
        if policy == WANTED_POLICY:
            return
        if any((await self._log.end_offsets(committed=False)).values()):
            raise StateError(
                f"topic {spec.name} has {POLICY}={policy}, which deletes {spec.contents} when they are old. "
                f"See whether it has all that it should, then set {WANTED_POLICY} and start again: "
                + self._command(
                    "kafka-configs.sh",
                    f"--alter --entity-type topics --entity-name {{}} --add-config {POLICY}={WANTED_POLICY}",
                )
            )
        # Nothing was ever in it, so nothing is missing: a client only asked for it, which made it.
        await asyncio.to_thread(self._cluster.set_topic_settings, spec.name, {POLICY: WANTED_POLICY})
        log.warning(
            "topic %s had %s=%s and nothing was ever in it: it is %s now",
            spec.name,
            POLICY,
            policy,
            WANTED_POLICY,
        )

    def _command(self, tool: str, words: str) -> str:
        return f"{tool} --bootstrap-server {self._cluster.bootstrap} {words.format(self._spec.name)}"
