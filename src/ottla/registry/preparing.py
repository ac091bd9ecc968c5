"""Makes the registry's topic at the start, or sees to it that the one that is there can keep schemas."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ottla.client.access import ClusterAccess
from ottla.registry.loss import TopicLost
from ottla.registry.partition_log import FoundTopic, PartitionLog, Unreadable
from ottla.registry.writer import NEVER_MAKE_TOPICS
from ottla.web.errors import ServiceError

log = logging.getLogger("ottla.registry")

ADMIN_SECONDS: Final = 30
LOOK_SECONDS: Final = 0.1
LOOKS: Final = 100
"""For a topic that was just made to be known, and for one with a leader; then the start is given up."""
WANTED_POLICY: Final = "compact"


async def prepare(access: ClusterAccess, topic: str, replication_factor: int) -> tuple[str, FoundTopic]:
    """Make the topic or check it; the cluster's id and what to read. Raises ServiceError."""
    partition_log = PartitionLog(access, topic)
    admin = AdminClient(access.librdkafka({"log_level": 2, **NEVER_MAKE_TOPICS}))
    preparing = _Preparing(admin, partition_log, topic, access.bootstrap)
    try:
        cluster = await asyncio.wrap_future(admin.describe_cluster(request_timeout=ADMIN_SECONDS))
        found = await preparing.found(min(replication_factor, len(cluster.nodes)))
        return str(cluster.cluster_id), found
    except KafkaException as problem:
        raise ServiceError(f"topic {topic} at {access.bootstrap}: {_told(problem)}") from None
    finally:
        await partition_log.close()


class _Preparing:
    def __init__(self, admin: AdminClient, partition_log: PartitionLog, topic: str, bootstrap: str) -> None:
        self._admin = admin
        self._log = partition_log
        self._topic = topic
        self._bootstrap = bootstrap

    async def found(self, replication_factor: int) -> FoundTopic:
        """The topic, once it is known and can be used. Raises ServiceError, KafkaException."""
        reason = "it is deleted as soon as it is made"
        for _ in range(LOOKS):
            try:
                found = await self._log.find()
                if found is None:
                    await self._create(replication_factor)
                elif found.leader is None:
                    reason = "partition 0 has no leader"
                else:
                    self._log.adopt(found)
                    await self._check(found)
                    return found
            except (Unreadable, TopicLost) as problem:
                reason = str(problem)
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                reason = _told(problem)
            await asyncio.sleep(LOOK_SECONDS)
        raise ServiceError(f"topic {self._topic} at {self._bootstrap} can't be used: {reason}")

    async def _create(self, replication_factor: int) -> None:
        wanted = NewTopic(self._topic, 1, replication_factor, config={"cleanup.policy": WANTED_POLICY})
        future = self._admin.create_topics([wanted], request_timeout=ADMIN_SECONDS)[self._topic]
        try:
            await asyncio.wrap_future(future)
        except KafkaException as problem:
            if problem.args[0].name() == "TOPIC_ALREADY_EXISTS":
                return
            raise
        log.info("made topic %s with %d replicas", self._topic, replication_factor)

    async def _check(self, found: FoundTopic) -> None:
        """Raises ServiceError; and Unreadable, TopicLost where it is to be looked for again."""
        if found.partitions != 1:
            raise ServiceError(
                f"topic {self._topic} has {found.partitions} partitions: schemas need the order of a single "
                f"one. If no schema is in it, delete it, and the next start makes it: "
                f"{self._command('kafka-topics.sh', '--delete --topic {}')}"
            )
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        configs = await asyncio.wrap_future(
            self._admin.describe_configs([resource], request_timeout=ADMIN_SECONDS)[resource]
        )
        policy = configs["cleanup.policy"].value
        if policy == WANTED_POLICY:
            return
        if await self._log.end_offset() > 0:
            raise ServiceError(
                f"topic {self._topic} has cleanup.policy={policy}, which deletes schemas when they are old. "
                f"See whether it has all that it should, then set {WANTED_POLICY} and start again: "
                + self._command(
                    "kafka-configs.sh",
                    "--alter --entity-type topics --entity-name {} --add-config cleanup.policy=compact",
                )
            )
        await self._correct(policy)

    async def _correct(self, policy: str) -> None:
        """Nothing was ever in it, so nothing is missing: somebody only asked for it, which made it."""
        entry = ConfigEntry("cleanup.policy", WANTED_POLICY, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=[entry])
        altered = self._admin.incremental_alter_configs([resource], request_timeout=ADMIN_SECONDS)[resource]
        await asyncio.wrap_future(altered)
        log.warning(
            "topic %s had cleanup.policy=%s and nothing was ever in it: it is %s now",
            self._topic,
            policy,
            WANTED_POLICY,
        )

    def _command(self, tool: str, words: str) -> str:
        return f"{tool} --bootstrap-server {self._bootstrap} {words.format(self._topic)}"


def _told(problem: KafkaException) -> str:
    error = problem.args[0]
    return str(error.str() if hasattr(error, "str") else error)
