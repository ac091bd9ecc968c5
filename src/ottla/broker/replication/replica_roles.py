"""Opens the partitions that have a replica here, and leads or follows each of them as the metadata says.

Theory of operation. The metadata log says which partitions exist, where their replicas are and who leads;
this module makes the disk agree, never the other way round. A topic is in the metadata before its directory
exists, and gone from it before its directory is renamed for deletion, so a kill -9 anywhere leaves either a
directory to be made at the next start or one to be removed.

A broker takes roles only once this run of it is registered (`take_roles`): the roles that the metadata gave
to an earlier run, which may have lost its unsynced tails, do not count. A new leader notes its epoch at the
end of its log before it appends anything, so that epochs tell any two logs apart. A follower's tail is
compared with the leader's before anything is appended to it (core/replica). The high watermark is kept on
disk every few seconds; one that is too low costs nothing but time, one that is too high is prevented where
logs are cut.

Everything here runs on the event loop.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.replication.partition import NO_LEADER, Partition
from ottla.core.image.image import MetadataDelta, PartitionImage, TopicImage
from ottla.core.links.topic_state import is_copied, is_mirror
from ottla.core.replica.follower import PartitionFollower
from ottla.core.replica.leader import PartitionLeader
from ottla.core.settings import broker_settings

if TYPE_CHECKING:
    from ottla.broker.replication.in_sync_watch import InSyncWatch
    from ottla.broker.replication.log_cleaner import LogCleaner
    from ottla.broker.replication.log_manager import LogManager
    from ottla.broker.replication.node import RolesNode
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.replica_fetcher import ReplicaFetchers
    from ottla.broker.replication.replication_settings import ReplicationSettings


class PartitionCoordinator(Protocol):
    """A coordinator, which keeps its state in the partitions of its topic that are led here."""

    def prepare(self) -> None:
        """This broker has a replica of a partition, so it may be elected."""
        ...

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now."""
        ...

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        ...


class MirrorTopics(Protocol):
    """The links of this broker, which fill the mirror topics that are led here."""

    def on_led(self, partition: Partition) -> None:
        """This broker leads the partition now, or in a new leader epoch."""
        ...

    def on_resigned(self, partition: Partition) -> None:
        """This broker leads the partition no more."""
        ...


#: Topics are gone: their ids and names.
OnTopicsDeleted = Callable[[Sequence[tuple[uuid.UUID, str]]], None]


class ReplicaRoles:
    """Opens, leads, follows and removes partitions. Used on the event loop only."""

    def __init__(
        self,
        node: RolesNode,
        partitions: Partitions,
        settings: ReplicationSettings,
        logs: LogManager,
        cleaner: LogCleaner,
        fetchers: ReplicaFetchers,
        in_sync: InSyncWatch,
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._settings = settings
        self._logs = logs
        self._cleaner = cleaner
        self._fetchers = fetchers
        self._in_sync = in_sync
        self._coordinators: Mapping[str, PartitionCoordinator] = {}
        self._mirrors: MirrorTopics | None = None
        self._on_topics_deleted: Sequence[OnTopicsDeleted] = ()
        self._has_roles = False

    # -- the start ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open every log that the metadata assigns here; move aside directories that it does not know.

        Nothing is led or copied before `take_roles`.
        """
        image = self._node.image
        self._logs.set_strays_aside(image)
        for topic in image.topics.values():
            for partition in topic.partitions.values():
                self._follow(topic, partition)

    def tell(
        self, coordinators: Mapping[str, PartitionCoordinator], on_topics_deleted: Sequence[OnTopicsDeleted]
    ) -> None:
        """From now on tell the coordinators, by their topics, which of their partitions are led here.

        Before `take_roles`: no partition of a coordinator is led without it.
        """
        self._coordinators = coordinators
        self._on_topics_deleted = on_topics_deleted

    def tell_links(self, mirrors: MirrorTopics) -> None:
        """From now on tell the links which mirror topics' partitions are led here. Before `take_roles`."""
        self._mirrors = mirrors

    def take_roles(self) -> None:
        """This broker is registered: lead and follow what the metadata says.

        Called when the registration's records are applied; further calls, after another registration, look
        at every partition again.
        """
        if not self._is_registered:
            return
        self._has_roles = True
        self._partitions.serve_followed()
        for topic in self._node.image.topics.values():
            for partition in topic.partitions.values():
                self._follow(topic, partition)

    def take_first_roles(self) -> None:
        """The coordinators are there, and this broker is registered: take roles, unless that was done."""
        if not self._has_roles:
            self.take_roles()

    @property
    def _is_registered(self) -> bool:
        """Whether the metadata has the registration of this run of the broker."""
        registered = self._node.image.brokers.get(self._node.node_id)
        return registered is not None and registered.broker_epoch == self._node.lifecycle.broker_epoch

    # -- changes of the metadata --------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Make the partitions follow committed metadata. Called by the controller after each change."""
        image = self._node.image
        for topic_id, name in delta.deleted_topics:
            self._drop(topic_id, name)
        if delta.deleted_topics:
            for tell in self._on_topics_deleted:
                tell(delta.deleted_topics)
        for topic_id, index in delta.changed_partitions:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and index in topic.partitions:
                self._follow(topic, topic.partitions[index])
        for name in delta.changed_topic_configs:
            self._configure(name)
        if delta.broker_configs_changed:
            self._settings.configure_broker()
            for name in list(self._settings.log_configs):
                self._configure(name)
            self._fetchers.configure(self._partitions)
        if delta.changed_brokers:
            self._in_sync.look_for_joiners()
        if not self._has_roles and self._node.node_id in delta.changed_brokers:
            self.take_roles()

    def _configure(self, topic: str) -> None:
        """Take over a topic's settings, for its logs and leaders too."""
        settings = self._settings
        settings.configure_topic(topic)
        for partition in self._partitions.of_topic(topic):
            partition.log.update_config(settings.log_configs[topic])
            if partition.is_leader:
                partition.leader.on_settings(
                    min_insync_replicas=settings.min_insync_replicas[topic],
                    lag_time_max_ms=self._node.config[broker_settings.REPLICA_LAG_TIME_MAX_MS],
                )
                partition.on_progress()

    # -- roles --------------------------------------------------------------------------------------

    def _follow(self, topic: TopicImage, image: PartitionImage) -> None:
        """Hold the partition if it has a replica here, and lead or follow as the metadata says."""
        held = self._partitions.held(topic.name, image.partition_id)
        if self._node.node_id not in image.replicas:
            if held is not None:
                self._remove(held)
            return
        if held is None:
            held = self._open(topic, image)
        if not self._has_roles:
            return
        if image.leader == self._node.node_id:
            self._lead(held, image)
        else:
            follower = held.follower
            if (
                follower is None
                or follower.leader_epoch != image.leader_epoch
                or follower.leader_id != image.leader
            ):
                self._become_follower(held, image)

    def _open(self, topic: TopicImage, image: PartitionImage) -> Partition:
        """Open or make the log; the partition has no leader yet."""
        index = image.partition_id
        if topic.name not in self._settings.log_configs:
            self._configure(topic.name)
        is_new = not self._logs.exists(topic.name, index)
        was_cleaned = self._cleaner.before_opening(topic.name, index, is_new=is_new)
        was_cleaned = was_cleaned or is_mirror(self._node.image, topic.name)  # it has its source's holes
        stored = self._logs.open_or_create(
            topic, index, self._settings.log_configs[topic.name], is_new=is_new, was_cleaned=was_cleaned
        )
        committed = self._logs.checkpointed_high_watermark(topic.name, index)
        role = PartitionFollower(
            leader_id=NO_LEADER, leader_epoch=NO_LEADER, log=stored, high_watermark=committed
        )
        partition = Partition(self._node.loop, topic.name, index, topic.topic_id, stored, role)
        self._partitions.add(partition)
        return partition

    def _lead(self, held: Partition, image: PartitionImage) -> None:
        """Lead the partition in the metadata's leader epoch, or take over what else changed."""
        if held.is_leader and held.leader_epoch == image.leader_epoch:
            leader = held.leader
            leader.on_metadata(partition_epoch=image.partition_epoch, isr=image.isr, replicas=image.replicas)
            held.is_replicated = leader.has_followers
            held.on_progress()
            self._in_sync.ask_for(held, leader.expansion())
            return
        self._fetchers.leave(held)
        stored = held.log
        mirrored = is_mirror(self._node.image, held.topic)
        if not (mirrored and is_copied(self._node.image, held.topic)):
            stored.assign_epoch(image.leader_epoch)  # the epochs of a mirror are its source's
        leader = PartitionLeader(
            local_id=self._node.node_id,
            leader_epoch=image.leader_epoch,
            isr=image.isr,
            log_end_offset=stored.log_end_offset,
            high_watermark=min(held.high_watermark, stored.log_end_offset),
            replicas=image.replicas,
            partition_epoch=image.partition_epoch,
            min_insync_replicas=self._settings.min_insync_replicas[held.topic],
            lag_time_max_ms=self._node.config[broker_settings.REPLICA_LAG_TIME_MAX_MS],
            eligible=self._eligible_epoch,
            now_ms=int(self._node.loop.time() * 1000),
        )
        held.lead(leader)
        self._partitions.lead(held)
        if mirrored and self._mirrors is not None:
            self._mirrors.on_led(held)
        coordinator = self._coordinators.get(held.topic)
        if coordinator is not None:
            coordinator.on_elected(held.index, image.leader_epoch)

    def _eligible_epoch(self, node_id: int) -> int | None:
        """The broker epoch of a node that may join an in-sync set; None if it may not."""
        known = self._node.image.brokers.get(node_id)
        return known.broker_epoch if known is not None and known.active else None

    def _become_follower(self, held: Partition, image: PartitionImage) -> None:
        """Another broker leads, or none does."""
        self._resign(held)
        coordinator = self._coordinators.get(held.topic)
        if coordinator is not None:
            coordinator.prepare()
        held.follow(
            PartitionFollower(
                leader_id=image.leader,
                leader_epoch=image.leader_epoch,
                log=held.log,
                high_watermark=held.high_watermark,
            )
        )
        self._fetchers.follow(held)

    def _resign(self, held: Partition) -> None:
        """Lead the partition no more, if this broker did."""
        if not held.is_leader:
            return
        self._partitions.resign(held)
        if self._mirrors is not None:
            self._mirrors.on_resigned(held)
        coordinator = self._coordinators.get(held.topic)
        if coordinator is not None:
            coordinator.on_resigned(held.index)

    def _remove(self, held: Partition) -> None:
        """The partition has no replica here any more: let go of it and delete its directory."""
        self._fetchers.leave(held)
        self._resign(held)
        self._partitions.remove(held)
        self._cleaner.on_deleted(held.topic, held.index)
        self._logs.delete(held.log)
        held.let_go()

    def _drop(self, topic_id: uuid.UUID, name: str) -> None:
        """The topic is deleted."""
        for partition in self._partitions.of_topic_id(topic_id):
            self._remove(partition)
        self._partitions.forget_topic(topic_id, name)
        self._settings.forget_topic(name)
