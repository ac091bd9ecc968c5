"""Asks the controller for changes of in-sync sets (AlterPartition), for all partitions led here together.

One request is on its way at a time; updates that are asked for meanwhile go with the next. Each partition has
one update under way at most (core/replica/leader.py), so nothing here grows beyond the partitions led. An
update of a leader that is none any more is dropped; one that failed on the way is sent again, as often as it
takes: by the partition epoch the controller knows whether the update was made already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ottla.broker.replication.partition import Partition
from ottla.core.replica.leader import UNKNOWN_BROKER_EPOCH, InSyncUpdate, PartitionLeader
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.alter_partition_response import AlterPartitionResponse
from ottla.protocol.messages.alter_partition_response import PartitionData as Answer

if TYPE_CHECKING:
    from ottla.broker.replication.node import UpdatesNode

log = logging.getLogger("ottla.broker")

RETRY_SECONDS: Final = 0.05
RECOVERED: Final = 0
"""The recovery state of a leader that asks for an in-sync set: its log is trusted."""


class _Wanted(NamedTuple):
    partition: Partition
    leader: PartitionLeader
    update: InSyncUpdate
    grows: bool
    """Whether it adds a replica; otherwise it removes one."""

    @property
    def is_wanted(self) -> bool:
        """Whether the leader still leads and waits for this update."""
        partition = self.partition
        return (
            partition.is_leader
            and partition.leader is self.leader
            and self.leader.update_under_way is self.update
        )


class InSyncUpdates:
    """The in-sync sets that this broker asks for. Used on the event loop only."""

    def __init__(self, node: UpdatesNode) -> None:
        self._node = node
        self._wanted: dict[tuple[UUID, int], _Wanted] = {}
        self._news = asyncio.Event()
        self.shrinks = 0
        """In-sync sets that lost a replica because this leader asked for it."""
        self.expansions = 0
        self.failures = 0
        """Updates that the controller has refused."""

    def ask(self, partition: Partition, update: InSyncUpdate) -> None:
        """Ask for `update` soon."""
        leader = partition.leader
        grows = len(update.isr) > len(leader.isr)
        self._wanted[partition.topic_id, partition.index] = _Wanted(partition, leader, update, grows)
        self._news.set()

    async def run(self) -> None:
        """Send the updates that are asked for, for ever."""
        while True:
            await self._news.wait()
            self._news.clear()
            batch = [each for each in self._wanted.values() if each.is_wanted]
            self._wanted.clear()
            if batch and not await self._send(batch):
                await asyncio.sleep(RETRY_SECONDS)

    async def _send(self, batch: Sequence[_Wanted]) -> bool:
        """Send one request. False if an update of it is to be sent again."""
        try:
            answer = await self._node.controller_channel.ask(self._request(batch))
        except KafkaError as error:
            log.warning("in-sync sets could not be changed error=%s", error.code.name)
            return self._again(batch)
        assert isinstance(answer, AlterPartitionResponse)
        if answer.error_code != ErrorCode.NONE:
            # The broker epoch is an old one: the next registration brings the new one.
            log.warning("in-sync sets were refused error=%s", ErrorCode(answer.error_code).name)
            return self._again(batch)
        answers = {
            (topic.topic_id, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        left = []
        for each in batch:
            partition = each.partition
            outcome = answers.get((partition.topic_id, partition.index))
            if outcome is not None:
                self._count(each, outcome)
            if outcome is None or (each.is_wanted and self._take(each, outcome)):
                left.append(each)
        return self._again(left)

    def _count(self, wanted: _Wanted, answer: Answer) -> None:
        """Count an answer; the metadata may have brought the new set before it."""
        if answer.error_code != ErrorCode.NONE:
            self.failures += 1
        elif wanted.grows:
            self.expansions += 1
        else:
            self.shrinks += 1

    def _again(self, left: Sequence[_Wanted]) -> bool:
        for each in left:
            self._wanted.setdefault((each.partition.topic_id, each.partition.index), each)
            self._news.set()
        return not left

    def _request(self, batch: Sequence[_Wanted]) -> AlterPartitionRequest:
        node = self._node
        topics: dict[UUID, TopicData] = {}
        own_epoch = node.lifecycle.broker_epoch
        for partition, _, update, _ in batch:
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = TopicData(topic_id=partition.topic_id, partitions=[])
            topic.partitions.append(
                PartitionData(
                    partition_index=partition.index,
                    leader_epoch=update.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(
                            broker_id=member.node_id,
                            broker_epoch=own_epoch
                            if member.node_id == node.node_id and member.broker_epoch == UNKNOWN_BROKER_EPOCH
                            else member.broker_epoch,
                        )
                        for member in update.isr
                    ],
                    leader_recovery_state=RECOVERED,
                    partition_epoch=update.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=node.node_id, broker_epoch=own_epoch, topics=list(topics.values())
        )

    def _take(self, wanted: _Wanted, answer: Answer) -> bool:
        """Take an answer over. Returns whether the update is to be sent again."""
        partition, leader, update, _ = wanted
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            before = leader.isr
            leader.on_update_answered(
                update,
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
                isr=answer.isr,
            )
            if leader.isr != before:
                log.info(
                    "in-sync set changed topic=%s partition=%d isr=%s before=%s partition_epoch=%d",
                    partition.topic, partition.index, sorted(leader.isr), sorted(before),
                    leader.partition_epoch,
                )  # fmt: skip
        else:
            log.info(
                "in-sync set not changed topic=%s partition=%d wanted=%s error=%s",
                partition.topic, partition.index, [each.node_id for each in update.isr], code.name,
            )  # fmt: skip
            again = leader.on_update_refused(update, code)
            partition.on_progress()
            return again
        partition.on_progress()
        following = leader.expansion()
        if following is not None:
            self.ask(partition, following)
        return False
