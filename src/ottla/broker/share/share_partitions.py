"""The share partitions that this broker leads, and the sessions of their members (KIP-932).

A share partition's leader (share_partition_leader.py) is made when a member first fetches from it and ended
when the partition, its leadership or the group's last session here is gone. All of this is made with the
first request of a share consumer: a broker without share groups starts without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.broker.share.counters import ShareCounters
from ottla.broker.share.dead_letter_queue import DeadLetterQueue
from ottla.broker.share.share_partition_leader import SharePartitionLeader, Status
from ottla.config.setting import Setting
from ottla.core.decisions.config_changes import group_setting_bounds
from ottla.core.image.features import SHARE_VERSION, SHARE_VERSION_WITH_DEAD_LETTERS
from ottla.core.settings import broker_settings, group_settings
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.sessions import SessionKey, ShareSessions, TopicPartition
from ottla.core.share.share_partition import Acknowledgement, SharePartitionSettings
from ottla.protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.broker.network.context import Connection
    from ottla.broker.share.node import SharePartitionsNode
    from ottla.broker.share.share_fetching import ShareFetch
    from ottla.core.image.image import MetadataDelta

log = logging.getLogger("ottla.broker.share")

ENDS_LEADER = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a write after which the state has to be loaded anew."""


class SharePartitions:
    """Leaders and sessions of all share groups on this broker. Used on the event loop only."""

    def __init__(self, node: SharePartitionsNode) -> None:
        self.sessions = ShareSessions(node.config[broker_settings.GROUP_SHARE_MAX_SHARE_SESSIONS])
        self.counters = ShareCounters()
        self._node = node
        self._dead_letters = DeadLetterQueue(node, self.counters)
        self._leaders: dict[SharePartitionKey, SharePartitionLeader] = {}
        self._waiting: dict[Connection, ShareFetch] = {}
        self._stopped = False
        node.controller.add_listener(self._on_metadata)
        node.server.on_closed.append(self._connection_closed)

    def stop(self) -> None:
        """The broker is stopping: connections that close now end no session any more."""
        self._stopped = True
        for leader in list(self._leaders.values()):
            self._end(leader)

    # -- leaders ------------------------------------------------------------------------------------

    def leader(self, key: SharePartitionKey) -> SharePartitionLeader:
        """The leader of a share partition, perhaps still loading. Raises KafkaError if it is not led here."""
        led = self._leaders.get(key)
        partition = self._node.partitions.partition_by_id(key.topic_id, key.partition)
        if led is not None:
            if led.partition is partition and led.leader_epoch == partition.leader_epoch:
                return led
            self._end(led)
        leader = SharePartitionLeader(
            self._node, key, partition, self.settings_of(key.group_id), self._dead_letters, self
        )
        self._leaders[key] = leader
        self.counters.loaded_partitions += 1
        self._node.supervisor.spawn(f"load-share-partition-{key.partition}", leader.load())
        return leader

    def leaders(self) -> list[SharePartitionLeader]:
        """Every share partition led here."""
        return list(self._leaders.values())

    def settings_of(self, group_id: str) -> SharePartitionSettings:
        """The settings of a group's deliveries: its own within the broker's bounds."""
        config = self._node.config.for_group(group_id, self._node.image)

        def bounded(setting: Setting[int]) -> int:
            smallest, largest = group_setting_bounds(setting.name)
            value = config[setting]
            if smallest is not None:
                value = max(value, self._node.config[smallest])
            return value if largest is None else min(value, self._node.config[largest])

        return SharePartitionSettings(
            lock_duration_ms=bounded(group_settings.SHARE_RECORD_LOCK_DURATION_MS),
            delivery_count_limit=bounded(group_settings.SHARE_DELIVERY_COUNT_LIMIT),
            max_record_locks=bounded(group_settings.SHARE_PARTITION_MAX_RECORD_LOCKS),
            renew_enabled=config[group_settings.SHARE_RENEW_ACKNOWLEDGE_ENABLE],
            dead_letters_enabled=(
                self._node.image.features.get(SHARE_VERSION, 0) >= SHARE_VERSION_WITH_DEAD_LETTERS
                and config[group_settings.ERRORS_DEADLETTERQUEUE_TOPIC_NAME] != ""
            ),
        )

    def reads_committed(self, group_id: str) -> bool:
        """Whether a group gets records of committed transactions only."""
        config = self._node.config.for_group(group_id, self._node.image)
        return config[group_settings.SHARE_ISOLATION_LEVEL] == "read_committed"

    def leader_failed(self, leader: SharePartitionLeader, error: KafkaError) -> None:
        """End a leader that could not be loaded, or whose state could not be written."""
        if leader.load_error is not None or error.code in ENDS_LEADER:
            self._end(leader)

    def leader_idle(self, leader: SharePartitionLeader) -> None:
        """End a leader that has written all changes, if its group has no members.

        Not earlier, as another one would load a state that lacks the changes still on their way.
        """
        if not self.sessions.has_members(leader.key.group_id):
            self._end(leader)

    def _end(self, leader: SharePartitionLeader) -> None:
        if self._leaders.get(leader.key) is leader:
            del self._leaders[leader.key]
        leader.fence()

    def _on_metadata(self, delta: MetadataDelta) -> None:
        """End the leaders of partitions that are led no more, take over changed settings."""
        gone: set[UUID] = {topic_id for topic_id, _ in delta.deleted_topics}
        for leader in self.leaders():
            key = leader.key
            partition = leader.partition
            if key.topic_id in gone or (
                (key.topic_id, key.partition) in delta.changed_partitions
                and (not partition.is_leader or leader.leader_epoch != partition.leader_epoch)
            ):
                self._end(leader)
            elif (
                delta.broker_configs_changed
                or delta.features_changed
                or key.group_id in delta.changed_group_configs
            ):
                leader.machine.settings = self.settings_of(key.group_id)

    # -- acknowledgements ---------------------------------------------------------------------------

    def acknowledge(
        self, session: SessionKey, partition: TopicPartition, acknowledgements: Sequence[Acknowledgement]
    ) -> asyncio.Future[None] | None:
        """Take a member's acknowledgements, see SharePartitionLeader.acknowledge. Raises KafkaError."""
        leader = self._leaders.get(SharePartitionKey(session.group_id, *partition))
        if leader is None or leader.status is Status.FENCED:
            raise UnknownTopicOrPartition()
        done = leader.acknowledge(session.member_id, acknowledgements)
        for each in acknowledgements:
            if len(each.types) == 1:
                self.counters.acknowledged_records[each.types[0]] += each.last_offset - each.first_offset + 1
            else:
                self.counters.acknowledged_records.update(each.types)
        return done

    # -- sessions -----------------------------------------------------------------------------------

    def release_session(self, key: SessionKey) -> None:
        """A session is over: the records that its member holds become available."""
        self._release(key, self.sessions.end(key) or ())

    def fetch_waits(self, connection: Connection, fetch: ShareFetch | None) -> None:
        """Note the fetch of a connection that waits now, or None when it waits no more."""
        if fetch is None:
            self._waiting.pop(connection, None)
        else:
            self._waiting[connection] = fetch

    def _connection_closed(self, connection: Connection) -> None:
        if self._stopped:
            return
        fetch = self._waiting.pop(connection, None)
        if fetch is not None:  # before the release: it must acquire no records for a member that is gone
            fetch.cancel()
        session = self.sessions.connection_closed(connection)
        if session is None:
            return
        self.counters.ended_by_disconnect += 1
        self.release_session(session.key)
        for leader in self.leaders():
            if leader.key.group_id == session.key.group_id and leader.is_idle:
                self.leader_idle(leader)

    def _release(self, key: SessionKey, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            leader = self._leaders.get(SharePartitionKey(key.group_id, *partition))
            if leader is not None and leader.is_active:
                leader.release(key.member_id)
