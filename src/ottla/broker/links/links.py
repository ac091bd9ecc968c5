"""The links of this broker: follows the metadata, and starts and stops what fills and ends mirror topics.

    coordinator    the one broker that leads the status topic looks after each link as a whole
    mirrors        on every broker, by link: the partitions that it leads are fetched from the source
    ends           partitions of stopped topics that it leads are made ready to be written to

A broker without links has one look at the settings of all brokers when these change, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.controller.topic_creation import create_topics
from ottla.broker.links.coordinator import LinksCoordinator
from ottla.broker.links.link_mirrors import LinkMirrors
from ottla.broker.links.mirror_end import end_mirror
from ottla.broker.links.mirrored import Mirrored
from ottla.broker.links.source import Source
from ottla.broker.links.source_access import connect_source
from ottla.core.image.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataDelta
from ottla.core.links.definition import LINK_TOPIC, InvalidLink, LinkDefinition, decode_definition, links_of
from ottla.core.links.status import FAILED
from ottla.core.links.topic_state import mirror_state
from ottla.core.settings.link_settings import MIRRORING, STOPPED
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode
    from ottla.broker.replication.partition import Partition

log = logging.getLogger("ottla.broker.links")

STATUS_REPLICAS: Final = 3
CREATE_RETRY_SECONDS: Final = 1.0
_STATUS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "unclean.leader.election.enable": "false",
}


class Links:
    """All parts of a broker's links. Used on the event loop only."""

    def __init__(self, node: LinksNode) -> None:
        self._node = node
        self.coordinator = LinksCoordinator(node)
        self._links: dict[str, LinkDefinition | InvalidLink] = {}
        self._mirrors: dict[str, tuple[LinkDefinition, Source, LinkMirrors, asyncio.Task[Any]]] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._creating: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._has_mirrors = False
        """Whether this broker has ever led a mirror: one that has not passes over what follows."""

    def begin(self) -> None:
        """The metadata are there: take the links that they have. Before any role is taken."""
        self._take_links()

    def stop(self) -> None:
        """The broker is stopping: fetch nothing more."""
        self._is_stopped = True
        self.coordinator.on_resigned(0)
        for name in list(self._mirrors):
            self._end_link(name)

    def mirrored(self) -> Iterator[tuple[str, Mirrored]]:
        """The partitions that are copied here, with their links."""
        for name, (_, _, mirrors, _) in self._mirrors.items():
            for each in mirrors.all():
                yield name, each

    def copied(self) -> dict[str, tuple[int, int]]:
        """Offsets and bytes that were copied by this broker, by link."""
        return {name: mirrors.copied() for name, (_, _, mirrors, _) in self._mirrors.items()}

    def led_states(self) -> Iterator[tuple[str, str]]:
        """Link and state of each mirror topic's partition that is led here."""
        for partitions in self._node.partitions.led_by_topic():
            for each in partitions:
                state = mirror_state(self._node.image.configs.get((TOPIC_RESOURCE, each.topic), {}))
                if state is None:
                    break
                if state.is_stopped:
                    yield state.link, STOPPED
                else:
                    failed = state.failure_of(each.index) is not None
                    yield state.link, FAILED if failed else MIRRORING

    # -- metadata -----------------------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Follow committed metadata, after the roles have."""
        if delta.broker_configs_changed:
            self._take_links()
        if delta.changed_topic_configs and self._has_mirrors:
            for topic in delta.changed_topic_configs:
                for partition in self._node.partitions.of_topic(topic):
                    if partition.is_leader:
                        self.on_led(partition)
        if delta.changed_topic_configs:
            self.coordinator.look()

    def _take_links(self) -> None:
        values = self._node.image.configs.get((BROKER_RESOURCE, ""), {})
        links: dict[str, LinkDefinition | InvalidLink] = {}
        for name, text in links_of(values).items():
            try:
                links[name] = decode_definition(name, text)
            except InvalidLink as problem:
                links[name] = problem
        if links == self._links and not links:
            return
        self._links = links
        self.coordinator.take_links(links)
        for name in list(self._mirrors):
            if self._mirrors[name][0] != links.get(name):
                self._end_link(name)
        for name, link in links.items():
            if isinstance(link, LinkDefinition) and name not in self._mirrors:
                self._start(link)
        if links and LINK_TOPIC not in self._node.image.topics and self._creating is None:
            self._creating = self._node.supervisor.spawn("create-links-topic", self._create_status_topic())

    async def _create_status_topic(self) -> None:
        """Until it is there; several brokers may try."""
        while LINK_TOPIC not in self._node.image.topics and self._links:
            replicas = min(STATUS_REPLICAS, max(1, len(self._node.image.brokers)))
            topic = CreatableTopic(
                name=LINK_TOPIC,
                num_partitions=1,
                replication_factor=replicas,
                configs=[
                    CreatableTopicConfig(name=name, value=value) for name, value in _STATUS_CONFIGS.items()
                ],
            )
            try:
                result = (await create_topics(self._node, [topic])).topics[0]
                if result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
                log.warning("the topic of links was not made error=%s", ErrorCode(result.error_code).name)
            except KafkaError as problem:
                log.info("the topic of links was not made reason=%s", problem)
            await asyncio.sleep(CREATE_RETRY_SECONDS)
        self._creating = None

    # -- links --------------------------------------------------------------------------------------

    def _start(self, link: LinkDefinition) -> None:
        """Begin a link here once its keys are read, which blocks."""
        if self._is_stopped:
            return
        earlier = self._starting.pop(link.name, None)
        if earlier is not None:
            earlier.cancel()
        self._starting[link.name] = self._node.supervisor.spawn(f"link-{link.name}-start", self._begin(link))

    async def _begin(self, link: LinkDefinition) -> None:
        try:
            connections = await asyncio.to_thread(connect_source, link, self._node.node_id)
        except InvalidLink as problem:
            log.error("a link can't be used link=%s reason=%s", link.name, problem)
            return
        finally:
            self._starting.pop(link.name, None)
        if self._links.get(link.name) != link or self._is_stopped:
            connections.close()
            return
        source = Source(link, connections, link.name)
        mirrors = LinkMirrors(self._node, link, source)
        task = self._node.supervisor.spawn(f"link-{link.name}-mirrors", mirrors.run())
        self._mirrors[link.name] = (link, source, mirrors, task)
        for by_topic in self._node.partitions.led_by_topic():
            for partition in by_topic:
                self.on_led(partition)

    def _end_link(self, name: str) -> None:
        _, source, mirrors, task = self._mirrors.pop(name)
        mirrors.stop()
        task.cancel()
        source.close()

    # -- roles --------------------------------------------------------------------------------------

    def on_led(self, partition: Partition) -> None:
        """This broker leads the partition, in a new leader epoch or under changed settings."""
        state = mirror_state(self._node.image.configs.get((TOPIC_RESOURCE, partition.topic), {}))
        if state is None:
            if self._has_mirrors:
                self.on_resigned(partition)
            return
        self._has_mirrors = True
        if state.is_stopped:
            self.on_resigned(partition)
            if partition.index not in (state.ends or {}) and not self._is_stopped:
                self._node.supervisor.spawn(
                    f"end-mirror-{partition.topic}-{partition.index}",
                    end_mirror(self._node, partition, partition.leader_epoch),
                )
            return
        found = self._mirrors.get(state.link)
        if found is None:
            return
        mirrors = found[2]
        if state.failure_of(partition.index) is not None:
            mirrors.leave(partition)
            return
        copied = mirrors.mirrored(partition.topic, partition.index)
        if copied is None or not copied.is_current or copied.partition is not partition:
            mirrors.copy(partition, state.source_id)

    def on_resigned(self, partition: Partition) -> None:
        """This broker leads the partition no more, or it is no mirror any more."""
        for _, _, mirrors, _ in self._mirrors.values():
            mirrors.leave(partition)
