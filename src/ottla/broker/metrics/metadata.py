"""The metadata on this node: the quorum, the controller, and how far the records are applied."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.controller.quorum_times import QuorumTimes
from ottla.core.image.image import NO_LEADER
from ottla.core.quorum.api import Role
from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.histogram import Histogram
from ottla.metrics.tables import broker as table

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.controller.controller import Controller
    from ottla.broker.controller.metadata_quorum import MetadataQuorum
    from ottla.core.image.image import MetadataDelta, MetadataImage

BREATHE_EVERY: Final = 100


class MetadataNode(Protocol):
    """What is read of the node."""

    @property
    def config(self) -> BrokerConfig:
        """The settings."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The metadata."""
        ...

    @property
    def quorum(self) -> MetadataQuorum:
        """This node's part in the quorum."""
        ...

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata."""
        ...


class MetadataMetrics:
    """The source of KafkaController's, raft's and the metadata's metrics."""

    def __init__(self, node: MetadataNode) -> None:
        self._node = node
        self._unclean_elections = 0
        self._decision_times = Histogram(0.001)
        self._times = QuorumTimes(time.monotonic)
        node.quorum.times = self._times
        node.controller.on_decided = self._decision_times.observe

    def follow(self, delta: MetadataDelta) -> None:
        """Count what only the changes tell."""
        self._unclean_elections += delta.unclean_elections

    def read(self) -> Iterator[Family | None]:
        """The families of this node's metadata."""
        yield from self._quorum()
        node = self._node
        yield single(table.METADATA_OFFSET, node.image.last_offset)
        yield single(table.METADATA_LAG, node.controller.records_left)
        if node.config.is_controller:
            yield from self._controller()

    def _quorum(self) -> Iterator[Family]:
        quorum = self._node.quorum
        core, times = quorum.core, self._times
        if core is None:
            return
        yield by_label(table.RAFT_STATE, {self._state(core.role, core.is_voter): 1})
        yield single(table.RAFT_LEADER, quorum.leader_id)
        yield single(table.RAFT_EPOCH, quorum.epoch)
        yield single(table.RAFT_VOTE, core.voted_for)
        yield single(table.RAFT_HIGH_WATERMARK, quorum.high_watermark)
        yield single(table.RAFT_END_OFFSET, quorum.log.end_offset)
        yield single(table.RAFT_END_EPOCH, quorum.log.last_epoch)
        yield single(table.RAFT_VOTERS, len(quorum.voters.node_ids))
        yield single(table.RAFT_APPEND_RATE, times.appended_records.per_second)
        yield single(table.RAFT_FETCH_RATE, times.fetched_records.per_second)
        yield single(table.RAFT_COMMIT_AVG, times.commit_ms.mean)
        yield single(table.RAFT_COMMIT_MAX, times.commit_ms.largest)
        yield single(table.RAFT_ELECTION_AVG, times.election_ms.mean)
        yield single(table.RAFT_ELECTION_MAX, times.election_ms.largest)
        yield single(table.RAFT_APPEND_AVG, times.append_ms.mean)
        yield single(table.RAFT_ELECTIONS, times.elections)
        yield single(table.RAFT_CHANNEL_REQUESTS, times.requests)
        yield single(table.RAFT_CHANNEL_RESPONSES, times.responses)
        received_bytes, sent_bytes = quorum.channel_bytes
        yield single(table.RAFT_CHANNEL_INCOMING, received_bytes)
        yield single(table.RAFT_CHANNEL_OUTGOING, sent_bytes)
        ends = core.replica_ends
        if ends is None:
            return
        end = quorum.log.end_offset
        yield single(table.RAFT_OBSERVERS, sum(not is_voter for _, is_voter, _ in ends))
        lags = [
            ((node_id, "voter" if is_voter else "observer"), max(0, end - max(0, fetched)))
            for node_id, is_voter, fetched in ends
        ]
        yield Family(table.VOTER_LAG, lags)

    @staticmethod
    def _state(role: Role, is_voter: bool) -> str:
        """The role in Kafka's words."""
        if role in (Role.FOLLOWER, Role.UNATTACHED) and not is_voter:
            return "observer"
        return role.value

    def _controller(self) -> Iterator[Family | None]:
        node = self._node
        image, controller = node.image, node.controller
        yield single(table.ACTIVE_CONTROLLER, int(controller.active))
        yield single(table.CONTROLLER_LAST_APPLIED, image.last_offset)
        yield single(table.CONTROLLER_QUEUE, controller.uncommitted_decisions)
        yield single(table.CONTROLLER_DECISION_TIME, self._decision_times)
        brokers = list(image.brokers.values())
        yield single(table.ACTIVE_BROKERS, sum(not each.fenced for each in brokers))
        yield single(table.FENCED_BROKERS, sum(each.fenced for each in brokers))
        yield single(table.UNCLEAN_ELECTIONS, self._unclean_elections)
        topics = list(image.topics.values())
        partitions = offline = imbalanced = 0
        for number, topic in enumerate(topics, 1):
            for each in list(topic.partitions.values()):
                partitions += 1
                offline += each.leader == NO_LEADER
                imbalanced += bool(each.replicas) and each.leader != each.replicas[0]
            if not number % BREATHE_EVERY:
                yield None
        yield single(table.GLOBAL_TOPICS, len(topics))
        yield single(table.GLOBAL_PARTITIONS, partitions)
        yield single(table.OFFLINE_PARTITIONS, offline)
        yield single(table.PREFERRED_IMBALANCE, imbalanced)
